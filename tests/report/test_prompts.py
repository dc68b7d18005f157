"""What is measured is asked once: a prompt seen before would find its own KV, or its own text."""

from itertools import islice, permutations

import pytest

from benchmarks.tracing_cost import _prompts
from ssd.report.prompts import PLAIN, TALES, Prompt


@pytest.mark.parametrize("prompts", [TALES, PLAIN], ids=["tales", "plain"])
def test_no_prompt_of_the_demo_begins_another(prompts: tuple[Prompt, ...]) -> None:
    assert len(prompts) >= 3
    for one, other in permutations(prompts, 2):
        assert not one.text.startswith(other.text)


def test_the_cost_of_tracing_is_measured_on_prompts_that_never_repeat() -> None:
    asked = list(islice(_prompts(), 5_000))
    assert len(set(asked)) == len(asked)
