"""Runs made by hand."""

from collections.abc import Sequence

from ssd.core.mode import Mode
from ssd.core.rounds import GrowthSpan, Lookup, RoundRecord
from ssd.service_bench.block import Block, Run, Wave
from ssd.service_bench.contender import Contender
from ssd.service_bench.race import Lane

MS = 1_000_000


def round_of(round_id: int, launch_ms: float, end_ms: float, lookup: Lookup) -> RoundRecord:
    """A verification of four drafted tokens, of which two were accepted and three tested."""
    return RoundRecord(
        round_id=round_id,
        base_len=10,
        launch_ns=round(launch_ms * MS),
        end_ns=round(end_ms * MS),
        wait_ns=MS,
        num_proposed=4,
        num_accepted=2,
        num_tested=3,
        num_batch_rows=5,
        lookup=lookup,
        verified_steps=(round_id,),
    )


def span_of(step: int, start_ms: float, end_ms: float) -> GrowthSpan:
    return GrowthSpan(step, 10, round(start_ms * MS), round(end_ms * MS), num_rows=2)


def run_of(
    prompt: str,
    token_ids: Sequence[int],
    seconds: float,
    *,
    rounds: Sequence[RoundRecord] = (),
    growth: Sequence[GrowthSpan] = (),
    first_s: float = 0.0,
) -> Run:
    last_s = first_s + seconds
    return Run(prompt, tuple(token_ids), first_s, last_s, tuple(rounds), tuple(growth))


def lane_of(name: str, mode: Mode, seconds: Sequence[float], token_id: int = 7) -> Lane:
    """A block of one prompt and eleven tokens for each of the times."""
    blocks = tuple(
        Block((Wave((run_of(f"prompt {index}", [token_id] * 11, each),)),))
        for index, each in enumerate(seconds)
    )
    return Lane(Contender(name, mode), 1, blocks)
