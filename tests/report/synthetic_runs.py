"""Runs made by hand: what a client could have seen."""

from ssd.core.messages import FinishReason
from ssd.core.mode import Mode
from ssd.core.rounds import GrowthSpan, Lookup, RoundRecord
from ssd.report import Comparison, DemoReport, Request, RunRecord, Served
from ssd.report.side_by_side import MODES

MS = 1_000_000
PROMPTS = ("opening", "request", "copy")
TEXT = tuple(range(10, 106))
_LOOKUPS = (Lookup.HIT, Lookup.HIT, Lookup.MISS_LATE, Lookup.HIT, Lookup.MISS_KEY)


def rounds_of(num_rounds: int) -> tuple[RoundRecord, ...]:
    """Rounds of 3 ms, every fifth ending in each kind of miss, 1 ms of waiting after a miss."""
    rounds: list[RoundRecord] = []
    for index in range(num_rounds):
        before = rounds[-1] if rounds else None
        missed = before is not None and before.lookup is not Lookup.HIT
        wait_ns = MS if missed else MS // 10
        launch_ns = (before.end_ns if before else 0) + wait_ns
        is_last = index == num_rounds - 1
        rounds.append(
            RoundRecord(
                round_id=index,
                base_len=5 + 3 * index,
                launch_ns=launch_ns,
                end_ns=launch_ns + 3 * MS,
                wait_ns=wait_ns,
                num_proposed=4,
                num_accepted=2,
                num_tested=3,
                num_batch_rows=5,
                lookup=Lookup.LAST if is_last else _LOOKUPS[index % len(_LOOKUPS)],
                verified_steps=(2 * index,),
            )
        )
    return tuple(rounds)


def growth_of(rounds: tuple[RoundRecord, ...]) -> tuple[GrowthSpan, ...]:
    """A step every millisecond, of which each round uses one."""
    end_ns = rounds[-1].end_ns if rounds else 0
    starts = range(0, end_ns, MS)
    return tuple(
        GrowthSpan(step, 5, start, start + MS * 9 // 10, 4) for step, start in enumerate(starts)
    )


def run_record(
    mode: Mode = Mode.SSD,
    *,
    temperature: float = 0.0,
    prompt: str = "opening",
    token_ids: tuple[int, ...] = TEXT,
    seconds: float = 0.5,
    num_rounds: int = 32,
) -> RunRecord:
    """A run whose tokens came evenly for the given time, the first after 0.1 s."""
    rounds = rounds_of(num_rounds)
    return RunRecord(
        request=Request(mode, temperature, 1, prompt, f"the {prompt}", 96),
        text="words",
        token_ids=token_ids,
        finish_reason=FinishReason.LENGTH,
        first_token_s=0.1,
        last_token_s=0.1 + seconds,
        rounds=rounds,
        growth=growth_of(rounds),
    )


def all_runs() -> list[RunRecord]:
    """Three prompts at two temperatures in three modes, all alike."""
    return [
        run_record(mode, temperature=temperature, prompt=prompt)
        for mode in MODES
        for temperature in (0.0, 1.0)
        for prompt in PROMPTS
    ]


def report_of(runs: list[RunRecord]) -> DemoReport:
    served = Served("tales", "tales", "fp32", "fp32", "0f", "equal to plain decoding")
    return DemoReport(served, Comparison(tuple(runs)))
