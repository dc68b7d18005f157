"""What runs once per round neither polls nor leaves the process by another way than its stream."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]
PER_ROUND = sorted(
    [
        *(CHECKOUT / "ssd/core").glob("*.py"),
        *(CHECKOUT / "ssd/engine").glob("*.py"),
        *(CHECKOUT / "ssd/sampling").glob("*.py"),
        CHECKOUT / "ssd/wire/accepted_stream.py",
        CHECKOUT / "ssd/wire/codec.py",
        CHECKOUT / "ssd/wire/envelopes.py",
        CHECKOUT / "ssd/wire/outbox.py",
        *(
            CHECKOUT / service / f"{name}.py"
            for service in ("drafter_service", "verifier_service")
            for name in ("machine", "servicer")
        ),
        CHECKOUT / "verifier_service/drafter_links.py",
        CHECKOUT / "coordinator/session_table.py",
        CHECKOUT / "coordinator/generation_servicer.py",
    ]
)


def calls(source: str) -> Iterator[tuple[str, int]]:
    """The dotted names that are called, with their lines."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func), node.lineno


def offences(source: str) -> list[str]:
    """Calls that sleep, and any use of Ray."""
    found = [
        f"{line}: {name}" for name, line in calls(source) if name.rpartition(".")[2] == "sleep"
    ]
    found += [f"{line}: import {name}" for name, line in imports(source) if is_ray(name)]
    return found


def imports(source: str) -> Iterator[tuple[str, int]]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from ((each.name, node.lineno) for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or "", node.lineno


def is_ray(name: str) -> bool:
    return name.split(".", maxsplit=1)[0] == "ray"


@pytest.mark.parametrize("path", PER_ROUND, ids=lambda path: str(path.relative_to(CHECKOUT)))
def test_the_code_of_a_round_never_sleeps_and_never_calls_ray(path: Path) -> None:
    assert not offences(path.read_text("utf-8"))


def test_the_check_sees_what_it_looks_for() -> None:
    assert offences("import time\ntime.sleep(1)") == ["2: time.sleep"]
    assert offences("await asyncio.sleep(0)") == ["1: asyncio.sleep"]
    assert offences("from ray import get") == ["1: import ray"]
    assert offences("import ray.util") == ["1: import ray.util"]
    assert not offences("self.queue.get(timeout=1)")
