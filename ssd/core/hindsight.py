"""What a recorded run could have been, had each round known what the target would say.

At every launch of a record the drafts at hand are known, and so is the text that followed. Each
choice of drafters (none, one of them, all together) makes a tree of those drafts; how much of it
came true is then a fact. The best run in hindsight takes the choice of each round that is worth
most, where a second is worth what that run earns: so the total rate is the largest there is.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ssd.core.cost_model import CostModel, ForwardSize
from ssd.core.drafter_kind import DrafterKind
from ssd.core.expansion import Expansion
from ssd.core.expansion_map import ExpansionMap
from ssd.core.flight_recorder import Ended, Segment
from ssd.core.ids import PrefixKey
from ssd.core.keys import extend_key, key_of
from ssd.core.read_off import PlannedTree, Soil, read_off
from ssd.core.source_rates import SourceRates
from ssd.core.verifier_flight import Checkpoint, Event, Grown, Launched, Settled

NONE = "none"
MERGED = "merged"
_ROUNDS_OF_PRICING = 8


@dataclass(frozen=True, slots=True)
class Trial:
    """What a choice brings in one round: tokens, and the seconds of its forward."""

    tokens: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Hindsight:
    """A run and its alternatives: the rate of each, in tokens per second of verification."""

    num_rounds: int
    actual: float
    best: float
    always: Mapping[str, float]
    """Of the run that makes the same choice in every round."""

    @property
    def reached(self) -> float:
        """Share of the best in hindsight."""
        return self.actual / self.best if self.best else 0.0


def hindsight(
    records: Sequence[Sequence[Segment[Checkpoint, Event]]],
    cost: CostModel,
    *,
    max_nodes: int,
) -> Hindsight:
    """Look back on the records of several sessions as one run."""
    actual: list[Trial] = []
    trials: list[dict[str, Trial]] = []
    for record in records:
        for round_actual, round_trials in _rounds(record, cost, max_nodes):
            actual.append(round_actual)
            trials.append(round_trials)
    names = sorted({name for each in trials for name in each})
    return Hindsight(
        num_rounds=len(actual),
        actual=_rate(actual),
        best=_best_rate(trials),
        always={name: _rate([each.get(name, each[NONE]) for each in trials]) for name in names},
    )


def _rate(trials: Sequence[Trial]) -> float:
    seconds = sum(each.seconds for each in trials)
    return sum(each.tokens for each in trials) / seconds if seconds else 0.0


def _best_rate(trials: Sequence[Mapping[str, Trial]]) -> float:
    """The largest rate of all runs; each better price makes better choices, until none does."""
    rate = 0.0
    for _ in range(_ROUNDS_OF_PRICING):
        chosen = [
            max(each.values(), key=lambda trial: trial.tokens - rate * trial.seconds)
            for each in trials
        ]
        rate = max(_rate(chosen), rate)
    return rate


def _rounds(
    record: Sequence[Segment[Checkpoint, Event]], cost: CostModel, max_nodes: int
) -> list[tuple[Trial, dict[str, Trial]]]:
    if not record:
        return []
    view = _View(record[0].checkpoint, _final_text(record), cost, max_nodes)
    rounds = []
    for segment in record:
        for event in segment.events:
            done = view.play(event)
            if done is not None:
                rounds.append(done)
    return rounds


def _final_text(record: Sequence[Segment[Checkpoint, Event]]) -> tuple[int, ...]:
    text = list(record[0].checkpoint.opening.token_ids)
    for segment in record:
        for event in segment.events:
            if isinstance(event, Settled):
                text += event.emitted
    return tuple(text)


class _View:
    """A session's drafts as they came in, beside the text that came of it."""

    def __init__(
        self, start: Checkpoint, text: tuple[int, ...], cost: CostModel, max_nodes: int
    ) -> None:
        self._text, self._cost, self._max_nodes = text, cost, max_nodes
        self._length = len(start.opening.token_ids)
        self._key = key_of(text[: self._length])
        self._drafts = ExpansionMap()
        self._rates = SourceRates()
        self._launched: Launched | None = None
        self._trials: dict[str, Trial] = {}
        for expansion in start.expansions:
            self._drafts.merge(expansion)

    def play(self, event: Event | Ended) -> tuple[Trial, dict[str, Trial]] | None:
        """Follow one event; at the end of a round, what it brought and what it could have."""
        match event:
            case Grown():
                for expansion in event.expansions:
                    if expansion.position >= self._length:
                        self._drafts.merge(expansion)
            case Launched() if not event.is_prefill:
                self._launched, self._trials = event, self._try_all()
            case Settled() if self._launched is not None:
                rows, self._launched = len(self._launched.token_ids), None
                actual = Trial(len(event.emitted), self._seconds(rows))
                self._advance(event.emitted)
                return actual, self._trials
        return None

    def _try_all(self) -> dict[str, Trial]:
        trials = {NONE: Trial(1, self._seconds(1))}
        kinds = {part.source for each in self._drafts for part in each.parts or (each,)}
        for kind in kinds:
            trials[kind.value] = self._try({kind})
        if len(kinds) > 1:
            trials[MERGED] = self._try(kinds)
        return trials

    def _try(self, kinds: set[DrafterKind]) -> Trial:
        soil = Soil(
            root_token_id=self._text[self._length - 1],
            cursor=self._key,
            expansions=self._drafts,
            weigh=lambda expansion: self._weigh(expansion, kinds),
            max_nodes=self._max_nodes,
            max_depth=max(len(self._text) - self._length - 1, 0),
        )
        (planned,) = read_off(
            [soil], max_nodes=self._max_nodes, is_worth=lambda reach, _: reach > 0
        )
        return Trial(self._accepted(planned) + 1, self._seconds(planned.tree.num_nodes))

    def _weigh(self, expansion: Expansion, kinds: set[DrafterKind]) -> list[float]:
        """As if only these had spoken: 0 for a candidate that none of them named."""
        said = [part for part in expansion.parts or (expansion,) if part.source in kinds]
        if len(said) == len(expansion.parts or (expansion,)):
            return self._rates.weights(expansion)
        weights = dict.fromkeys(expansion.token_ids, 0.0)
        for part in said:
            for token_id, weight in zip(part.token_ids, self._rates.weights(part), strict=True):
                weights[token_id] = max(weights[token_id], weight)
        return [weights[token_id] for token_id in expansion.token_ids]

    def _accepted(self, planned: PlannedTree) -> int:
        """How far the text that followed goes down the tree."""
        children, node, depth = planned.tree.children(), 0, 0
        for token_id in self._text[self._length :]:
            child = children.get((node, token_id))
            if child is None:
                break
            node, depth = child, depth + 1
        return depth

    def _seconds(self, rows: int) -> float:
        return self._cost.forward_s(ForwardSize(rows, rows * self._length))

    def _advance(self, emitted: Sequence[int]) -> None:
        for token_id in emitted:
            expansion = self._drafts.get(self._key)
            if expansion is not None:
                self._rates.record(expansion, token_id)
            self._key = PrefixKey(extend_key(self._key, token_id))
            self._length += 1
        self._drafts.forget_below(self._length)
