"""What one round was, in numbers, and what a request's rounds add up to.

The words are defined once, here, and measured nowhere else:

- acceptance = accepted / tested, where tested counts the nodes of the walk that had a verified
  child.
- node yield = accepted / proposed. The bonus token counts in neither.
- hit rate   = commits after which the cursor has an expansion, at that instant, before any waiting,
  over all commits but the request's last.
- busy       = verify time / (last commit - first launch).
- overlap    = draft time under a verification / draft time, in that span. A step is useful when a
  node that it proposed was verified: useful overlap is the same ratio over useful steps alone, and
  useful share is their part of all draft time.

Times are nanoseconds of the verifier's monotonic clock.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

from ssd.core.drafter_kind import DrafterKind, DrafterState


class Lookup(StrEnum):
    """What the cursor found in the map at the instant of the commit."""

    HIT = "hit"
    MISS_ABSENT = "absent"  # no drafter works for this session
    MISS_KEY = "key"  # the node that ended the walk stood expanded, without the bonus token
    MISS_LATE = "late"  # the drafter was not there yet
    LAST = "last"  # the request ended here; nothing was looked up


class WhyPlain(StrEnum):
    """Why a round proposed nothing."""

    MODE = "mode"  # the request asked for none
    NO_DRAFTER = "no_drafter"  # none works for the session
    NOT_READY = "not_ready"  # the drafter had nothing for this text yet
    TOO_DEAR = "too_dear"  # what it had was not worth its rows under this load
    LAST_TOKEN = "last_token"  # only one token was left to draw
    PROBE = "probe"  # drafts were left out to measure plain decoding
    PAUSED = "paused"  # no drafter of the session pays


@dataclass(frozen=True, slots=True)
class DrafterPart:
    """One drafter's part in one session's round: its nodes, which others may have named too, and
    what the session made of it then."""

    kind: DrafterKind
    num_proposed: int
    num_accepted: int
    state: DrafterState


@dataclass(frozen=True, slots=True)
class ShadowRound:
    """A verification that was not made, as mode `shadow` counts it (`ssd.core.shadow`)."""

    num_tokens: int
    num_proposed: int
    num_accepted: int
    num_tested: int
    lookup: Lookup


@dataclass(frozen=True, slots=True)
class RoundRecord:
    """One session's part in one verification.

    `verified_steps` names the drafter's growth steps that proposed a node of this round's tree.
    `num_cached` counts the tokens of the text whose KV stood when the session was opened.
    `shadow` is the round that drafts would have made, if it ended with this one.
    """

    round_id: int
    base_len: int
    launch_ns: int
    end_ns: int
    wait_ns: int
    num_proposed: int
    num_accepted: int
    num_tested: int
    num_batch_rows: int
    lookup: Lookup
    verified_steps: tuple[int, ...] = ()
    tree_depth: int = 0  # edges on the longest path of what was verified
    num_cached: int = 0

    why_plain: WhyPlain | None = None
    drafters: tuple[DrafterPart, ...] = ()
    shadow: ShadowRound | None = None

    @property
    def verify_ns(self) -> int:
        return self.end_ns - self.launch_ns


STEPS_PER_LIFE = 2**32


def life_of(step: int) -> int:
    """Which life of which drafter ran a growth step: each numbers its steps in a block of its own,
    so that the steps of several drafters never carry the same number."""
    return step // STEPS_PER_LIFE


@dataclass(frozen=True, slots=True)
class GrowthSpan:
    """One forward of the drafter that had rows of the session."""

    step: int
    base_len: int
    start_ns: int
    end_ns: int
    num_rows: int


@dataclass(frozen=True, slots=True)
class DrafterFigures:
    """A request's figures of one drafter: its nodes, rounds for which it was paused, probes."""

    num_proposed: int
    num_accepted: int
    num_paused: int
    num_probes: int
    is_paused: bool  # at the end

    @property
    def node_yield(self) -> float:
        return _ratio(self.num_accepted, self.num_proposed)

    @property
    def why(self) -> str:
        """What became of it, in a sentence."""
        share = f"{self.num_accepted} of {self.num_proposed} nodes accepted"
        if not self.num_paused:
            return f"{share}; never paused"
        end = "paused at the end" if self.is_paused else "back at the end"
        return (
            f"{share}; did not pay and was paused for {self.num_paused} rounds, "
            f"probed {self.num_probes} times, {end}"
        )


@dataclass(frozen=True, slots=True)
class RoundFigures:
    """A request's figures, from its rounds and its drafter's steps."""

    num_rounds: int
    num_tokens: int
    num_proposed: int
    num_accepted: int
    num_tested: int
    num_hits: int
    misses: dict[Lookup, int]
    busy: float
    overlap: float
    useful_overlap: float
    useful_share: float
    num_cached: int
    verify_ms: float
    wait_ms: float
    accepted_at_depth: tuple[int, ...]
    plain_rounds: dict[WhyPlain, int]
    drafters: dict[DrafterKind, DrafterFigures]

    @property
    def tokens_per_round(self) -> float:
        return _ratio(self.num_tokens, self.num_rounds)

    @property
    def acceptance(self) -> float:
        return _ratio(self.num_accepted, self.num_tested)

    @property
    def node_yield(self) -> float:
        return _ratio(self.num_accepted, self.num_proposed)

    @property
    def hit_rate(self) -> float:
        return _ratio(self.num_hits, self.num_hits + sum(self.misses.values()))


def figures_of(
    rounds: Sequence[RoundRecord], growth: Sequence[GrowthSpan], *, num_tokens: int
) -> RoundFigures:
    """Sum up a request that delivered `num_tokens`; every ratio of nothing is 0.

    Rounds alone cannot say how many: a stop token may end the text inside an accepted path.
    """
    lookups = [each.lookup for each in rounds if each.lookup is not Lookup.LAST]
    verify_ns = sum(each.verify_ns for each in rounds)
    first = min((each.launch_ns for each in rounds), default=0)
    last = max((each.end_ns for each in rounds), default=0)
    drafted = [each for each in growth if each.start_ns >= first and each.end_ns <= last]
    verified = {step for each in rounds for step in each.verified_steps}
    useful = [each for each in drafted if each.step in verified]
    depths = max((each.num_accepted for each in rounds), default=0)
    return RoundFigures(
        num_rounds=len(rounds),
        num_tokens=num_tokens,
        num_proposed=sum(each.num_proposed for each in rounds),
        num_accepted=sum(each.num_accepted for each in rounds),
        num_tested=sum(each.num_tested for each in rounds),
        num_hits=lookups.count(Lookup.HIT),
        misses={
            kind: lookups.count(kind)
            for kind in (Lookup.MISS_ABSENT, Lookup.MISS_KEY, Lookup.MISS_LATE)
        },
        busy=_ratio(verify_ns, last - first),
        overlap=overlap_of(rounds, drafted),
        useful_overlap=overlap_of(rounds, useful),
        useful_share=_ratio(_draft_ns(useful), _draft_ns(drafted)),
        num_cached=rounds[0].num_cached if rounds else 0,
        verify_ms=_ratio(verify_ns, len(rounds)) / 1e6,
        wait_ms=_ratio(sum(each.wait_ns for each in rounds), len(rounds)) / 1e6,
        accepted_at_depth=tuple(
            sum(each.num_accepted >= depth for each in rounds) for depth in range(1, depths + 1)
        ),
        plain_rounds=dict(Counter(each.why_plain for each in rounds if each.why_plain)),
        drafters=_drafter_figures(rounds),
    )


def _drafter_figures(rounds: Sequence[RoundRecord]) -> dict[DrafterKind, DrafterFigures]:
    parts: dict[DrafterKind, list[DrafterPart]] = {}
    for each in rounds:
        for part in each.drafters:
            parts.setdefault(part.kind, []).append(part)
    return {kind: _figures_of_one(mine) for kind, mine in parts.items()}


def _figures_of_one(parts: Sequence[DrafterPart]) -> DrafterFigures:
    states = [part.state for part in parts]
    return DrafterFigures(
        num_proposed=sum(part.num_proposed for part in parts),
        num_accepted=sum(part.num_accepted for part in parts),
        num_paused=states.count(DrafterState.PAUSED),
        num_probes=sum(
            state is DrafterState.PROBED and before is not DrafterState.PROBED
            for before, state in pairwise([DrafterState.ACTIVE, *states])
        ),
        is_paused=states[-1] is DrafterState.PAUSED,
    )


def shadow_figures_of(rounds: Sequence[RoundRecord]) -> RoundFigures | None:
    """What the request's drafts would have done, None where nobody looked; it has no times."""
    shadows = [each.shadow for each in rounds if each.shadow is not None]
    if not shadows:
        return None
    would_be = [
        RoundRecord(
            round_id=number,
            base_len=0,
            launch_ns=0,
            end_ns=0,
            wait_ns=0,
            num_proposed=each.num_proposed,
            num_accepted=each.num_accepted,
            num_tested=each.num_tested,
            num_batch_rows=1 + each.num_proposed,
            lookup=each.lookup,
        )
        for number, each in enumerate(shadows)
    ]
    return figures_of(would_be, (), num_tokens=sum(each.num_tokens for each in shadows))


def overlap_of(rounds: Sequence[RoundRecord], growth: Sequence[GrowthSpan]) -> float:
    """Share of the draft time that passed under a verification; 0 without any."""
    return _ratio(_shared_ns(rounds, growth), _draft_ns(growth))


def _draft_ns(growth: Sequence[GrowthSpan]) -> int:
    return sum(each.end_ns - each.start_ns for each in growth)


def _shared_ns(rounds: Sequence[RoundRecord], growth: Sequence[GrowthSpan]) -> int:
    """Time that both a verification and a growth step cover; neither overlaps its own kind."""
    shared, index = 0, 0
    ordered = sorted(rounds, key=lambda each: each.launch_ns)
    for span in sorted(growth, key=lambda each: each.start_ns):
        while index < len(ordered) and ordered[index].end_ns <= span.start_ns:
            index += 1
        for each in ordered[index:]:
            if each.launch_ns >= span.end_ns:
                break
            shared += min(each.end_ns, span.end_ns) - max(each.launch_ns, span.start_ns)
    return shared


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole > 0 else 0.0
