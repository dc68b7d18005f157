"""Whether a drafter's work for one session pays, decided from what the session has seen.

A drafter is *active*, *paused*, or *probed*:

            does not pay                     its time is over
    active ─────────────▶ paused ◀────────────────────────────── probed
       ▲                     │  probe_rounds later                 ▲ │
       │                     └─────────────────────────────────────┘ │
       └─────────────────────────────────────────────────────────────┘ does pay

It pays while the tokens that its nodes brought exceed those that their rows, and the waiting for
it, would have brought (`ssd.core.price`), over about the last 20 rounds since it was first heard.
Whatever the prices, one whose first candidates come true more rarely than `min_acceptance` is
paused, and so is one whose nodes were all too dear for `pause_rounds`. A probe verifies nothing and
waits for nothing: it compares what the drafter says with what the target said. What a paused
drafter would say is not asked for: a process is told to forget the session, and its device is free
for others. Sums and counts of the past decide, never the tokens at hand, so rule `ratio` stays
exact.

A model whose first candidates came true more rarely than `min_acceptance` in all sessions together
is paused in new ones from the start, but for one in sixteen: what texts say changes.

Between those ends a session corrects what all sessions together think of a drafter: `trust` is how
often its first candidates came true here over how often they should have.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from ssd.core.drafter_kind import DrafterKind, DrafterState
from ssd.core.errors import ConfigError
from ssd.core.expansion import Expansion
from ssd.core.source_rates import SourceRates

_FADE = 0.95
_CAUTION = 6.0  # tests that trust is slow by
_SURE = 16  # tests that a verdict needs; with 8, in modelled time, bad luck paused some that paid
_SURE_OF_RARE = 8  # where hardly a candidate comes true
_FEW = 4  # tests that a probe, or a long time without pay, needs
_DOUBLINGS = 2  # of the pause, one after each probe in vain
_BACK_AT = 0.3  # of the first candidates seen in a probe


@dataclass(frozen=True, slots=True)
class ControlLimits:
    """Bounds of the control: the most rounds that a drafter may go on without paying, the rounds
    until a paused one is probed, four times as many at last where probes are in vain, and the
    acceptance below which it is not worth asking."""

    is_on: bool = True
    pause_rounds: int = 32
    probe_rounds: int = 64
    min_acceptance: float = 0.1

    def __post_init__(self) -> None:
        for name in ("pause_rounds", "probe_rounds"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} must be at least 1, not {getattr(self, name)}")
        if not 0.0 <= self.min_acceptance <= 1.0:
            raise ConfigError(f"min_acceptance must be 0 to 1, not {self.min_acceptance}")


@dataclass(frozen=True, slots=True)
class Spending:
    """One round of one drafter: nodes verified, nodes accepted, and what they cost in tokens."""

    kind: DrafterKind
    num_proposed: int
    num_accepted: int
    price: float


@dataclass(frozen=True, slots=True)
class StateChange:
    """From now on a session treats one of its drafters so."""

    kind: DrafterKind
    state: DrafterState


@dataclass(slots=True)
class _Record:
    """What a session knows of one drafter since its state changed."""

    state: DrafterState = DrafterState.ACTIVE
    num_rounds: int = 0  # in this state; active: since it last paid
    num_probes: int = 0
    num_in_vain: int = 0  # probes since it last paid
    earned: float = 0.0  # tokens, faded
    spent: float = 0.0
    tests: float = 0.0  # of first candidates, faded
    matches: float = 0.0
    foreseen: float = 0.0  # matches that the common counts foresaw
    num_idle: int = 0  # rounds in a row in which it had something to say and no node was worth it
    is_heard: bool = False  # it had something to say in this round

    def restart(self, state: DrafterState) -> None:
        self.state, self.num_rounds = state, 0
        self.num_probes += state is DrafterState.PROBED
        self.num_in_vain = 0 if state is DrafterState.ACTIVE else self.num_in_vain
        self.num_in_vain += state is DrafterState.PROBED
        self.earned = self.spent = self.tests = self.matches = self.foreseen = 0.0
        self.num_idle = 0

    @property
    def acceptance(self) -> float:
        return self.matches / self.tests if self.tests else 0.0


class SessionControl:
    """One session's drafters; the verifier asks after every round what has changed."""

    def __init__(self, limits: ControlLimits) -> None:
        self.limits = limits
        self._records: dict[DrafterKind, _Record] = {}

    @property
    def states(self) -> dict[DrafterKind, DrafterState]:
        """Of every drafter that the session heard of."""
        return {kind: record.state for kind, record in self._records.items()}

    def meet(self, kind: DrafterKind) -> None:
        """A drafter works for the session from now on."""
        self._record(kind)

    def doubt(self, kind: DrafterKind) -> None:
        """The session begins without a drafter that was wrong in the others, and probes it late."""
        record = self._record(kind)
        record.state, record.num_in_vain = DrafterState.PAUSED, _DOUBLINGS

    def is_paused(self, kind: DrafterKind) -> bool:
        return kind in self._records and self._record(kind).state is DrafterState.PAUSED

    def num_probes_of(self, kind: DrafterKind) -> int:
        return self._record(kind).num_probes

    def acceptance_of(self, kind: DrafterKind) -> float:
        """Share of a drafter's first candidates that came true lately."""
        return self._record(kind).acceptance

    def trust_in(self, kind: DrafterKind) -> float:
        """Factor on what all sessions together think of a drafter's candidates."""
        record = self._record(kind)
        return (record.matches + _CAUTION) / (record.foreseen + _CAUTION)

    def weights(self, expansion: Expansion, rates: SourceRates) -> list[float]:
        """Edge weights of an expansion's candidates, as this session trusts who named them."""
        weights = rates.weights(expansion)
        if not self.limits.is_on:
            return weights
        if not expansion.parts:
            trust = self._belief_in(expansion.source)
            return [min(weight * trust, 1.0) for weight in weights]
        beliefs = [(part.source.bit, self._belief_in(part.source)) for part in expansion.parts]
        return [
            min(weight * max(belief for bit, belief in beliefs if origins & bit), 1.0)
            for weight, origins in zip(weights, expansion.origins, strict=True)
        ]

    def first_rate(self, kind: DrafterKind, rates: SourceRates) -> float:
        """How often a drafter's first candidate comes true: what all sessions saw counts until
        this one has seen enough."""
        known = rates.of(kind).first_rate
        if not self.limits.is_on:
            return known
        record = self._record(kind)
        return (record.matches + _CAUTION * known) / (record.tests + _CAUTION)

    def _belief_in(self, kind: DrafterKind) -> float:
        """Of a drafter on probation nothing is verified: what it says is compared alone."""
        state = self._record(kind).state
        return 0.0 if state is DrafterState.PROBED else self.trust_in(kind)

    def saw(self, expansion: Expansion, token_id: int, rates: SourceRates) -> None:
        """The target took a token where drafters had said what they expect."""
        for part in expansion.parts or (expansion,):
            if not part.token_ids:
                continue
            record = self._record(part.source)
            record.tests = record.tests * _FADE + 1.0
            record.matches = record.matches * _FADE + (part.token_ids[0] == token_id)
            foreseen = rates.of(part.source).weight(0, part.estimates[0])
            record.foreseen = record.foreseen * _FADE + foreseen
            record.is_heard = True

    def round_over(self, spendings: Iterable[Spending]) -> None:
        """A round of the session ended."""
        for each in spendings:
            record = self._record(each.kind)
            if not record.tests:
                continue  # it reads the text as yet; patience bounds what waiting for it costs
            record.earned = record.earned * _FADE + each.num_accepted
            record.spent = record.spent * _FADE + each.price
            if each.num_proposed:
                record.num_idle = 0
            elif record.is_heard:
                record.num_idle += 1
            record.is_heard = False

    def decide(self) -> list[StateChange]:
        """Which of the session's drafters change their state now; called once a round."""
        if not self.limits.is_on:
            return []
        changes = []
        for kind, record in self._records.items():
            record.num_rounds += record.state is not DrafterState.ACTIVE or record.tests > 0.0
            state = self._next_state(record)
            if state is not record.state:
                record.restart(state)
                changes.append(StateChange(kind, state))
        return changes

    def _next_state(self, record: _Record) -> DrafterState:
        match record.state:
            case DrafterState.ACTIVE:
                return self._judged(record)
            case DrafterState.PAUSED:
                pause = self.limits.probe_rounds << min(record.num_in_vain, _DOUBLINGS)
                is_due = record.num_rounds >= pause
                return DrafterState.PROBED if is_due else DrafterState.PAUSED
            case DrafterState.PROBED:
                return self._probed(record)

    def _judged(self, record: _Record) -> DrafterState:
        """Active goes on while it pays; what was not seen yet is no reason, but not for ever."""
        is_rare = record.acceptance < self.limits.min_acceptance
        pays = record.earned >= record.spent and not is_rare
        if pays and record.tests:
            record.num_rounds = 0
        needed = _SURE_OF_RARE if is_rare else _SURE
        is_sure = record.num_rounds >= needed and record.tests >= _seen(needed)
        is_late = record.num_rounds >= self.limits.pause_rounds and record.tests >= _seen(_FEW)
        is_dear = record.num_idle >= self.limits.pause_rounds
        return DrafterState.PAUSED if is_sure or is_late or is_dear else DrafterState.ACTIVE

    def _probed(self, record: _Record) -> DrafterState:
        if record.tests >= _seen(_FEW):
            is_back = record.acceptance >= max(_BACK_AT, self.limits.min_acceptance)
            return DrafterState.ACTIVE if is_back else DrafterState.PAUSED
        is_over = record.num_rounds >= self.limits.pause_rounds
        return DrafterState.PAUSED if is_over else DrafterState.PROBED

    def _record(self, kind: DrafterKind) -> _Record:
        record = self._records.get(kind)
        if record is None:
            record = self._records[kind] = _Record()
        return record


def _seen(num_tests: int) -> float:
    """What a faded count shows after so many tests."""
    return (1.0 - _FADE**num_tests) / (1.0 - _FADE)
