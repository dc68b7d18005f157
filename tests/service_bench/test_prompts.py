"""J2: prompts are distinct, and a pair's own are held out from its training."""

import json
import sysconfig
from pathlib import Path

import pytest

from ssd.core.errors import ConfigError
from ssd.service_bench.prompts import Workload, prompts_of

MODELS = Path(__file__).resolve().parents[2] / "models"
PYSTD = MODELS / "pystd" / "target"


@pytest.mark.parametrize("workload", Workload)
def test_prompts_are_distinct_and_follow_from_the_seed(workload: Workload) -> None:
    prompts = prompts_of(workload, target=PYSTD, count=60, seed=3)
    assert len(set(prompts)) == 60
    assert prompts == prompts_of(workload, target=PYSTD, count=60, seed=3)
    assert prompts != prompts_of(workload, target=PYSTD, count=60, seed=4)


def test_source_is_of_files_that_the_pair_never_saw() -> None:
    names = json.loads((MODELS / "pystd" / "MANIFEST.json").read_text())["held_out_files"]
    root = Path(sysconfig.get_paths()["stdlib"])
    held_out = [(root / name).read_text() for name in names if (root / name).is_file()]
    for prompt in prompts_of(Workload.CODE, target=PYSTD, count=60, seed=1):
        assert any(prompt in text for text in held_out)


def test_too_many_prompts_are_refused_with_their_number() -> None:
    with pytest.raises(ConfigError, match=r"there are \d+ distinct prompts of workload chat"):
        prompts_of(Workload.CHAT, target=PYSTD, count=100_000, seed=1)
