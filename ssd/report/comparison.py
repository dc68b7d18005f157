"""Whether drafting changed a text: every run against plain decoding of the same question.

Nothing here knows the target's scores, so a near-tie that rounding has turned counts as a
difference like any other.
"""

from dataclasses import dataclass
from functools import cached_property
from itertools import zip_longest

from ssd.core.mode import Mode
from ssd.report.run_record import Question, RunRecord


@dataclass(frozen=True, slots=True)
class Difference:
    """Where a run left plain decoding; None for a text that ended there."""

    run: RunRecord
    index: int
    plain_token_id: int | None
    token_id: int | None

    def __str__(self) -> str:
        request = self.run.request
        return (
            f"{request.mode} at temperature {request.temperature:g}, {request.prompt_name}:"
            f" token {self.index} is {_shown(self.token_id)},"
            f" plain decoding has {_shown(self.plain_token_id)}"
        )


@dataclass(frozen=True)
class Comparison:
    """Runs in all modes; each question has one in mode `ar`."""

    runs: tuple[RunRecord, ...]

    def __post_init__(self) -> None:
        for run in self.runs:
            if run.request.question not in self._plain:
                raise ValueError(f"no run in mode ar to compare with: {run.request}")

    @property
    def differences(self) -> tuple[Difference, ...]:
        found = (self.difference(run) for run in self.runs)
        return tuple(each for each in found if each is not None)

    def difference(self, run: RunRecord) -> Difference | None:
        """The first id that differs from plain decoding."""
        plain = self._plain[run.request.question]
        for index, (expected, got) in enumerate(zip_longest(plain.token_ids, run.token_ids)):
            if expected != got:
                return Difference(run, index, expected, got)
        return None

    def as_json(self) -> list[dict[str, object]]:
        return [run.as_json(identical_to_ar=self.difference(run) is None) for run in self.runs]

    @cached_property
    def _plain(self) -> dict[Question, RunRecord]:
        return {run.request.question: run for run in self.runs if run.request.mode is Mode.AR}

    def of(self, mode: Mode, temperature: float) -> tuple[RunRecord, ...]:
        return tuple(
            run
            for run in self.runs
            if run.request.mode is mode and run.request.temperature == temperature
        )


def _shown(token_id: int | None) -> str:
    return "the end" if token_id is None else f"id {token_id}"
