"""A verifier and drafters in one thread without a network: cores, machines and real sampling.

Messages go through queues that a seed makes late, lost or doubled. Time is a counter: each round
and each growth step takes some of it.
"""

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from torch import Tensor

from drafter_service.machine import DrafterMachine
from drafter_service.ngram_machine import NgramMachine
from ssd.core.drafter import Drafter
from ssd.core.drafter_kind import DrafterKind
from ssd.core.drafter_limits import DrafterLimits
from ssd.core.drafter_outputs import Output as DrafterOutput
from ssd.core.drafter_outputs import ToVerifier
from ssd.core.growth import GrowthLimits, chain_limits
from ssd.core.ids import Epoch, SessionId
from ssd.core.ledger import Ledger
from ssd.core.messages import Close, Commit, Finished, Grow, Need, Open, Rates, Refused
from ssd.core.mode import Mode
from ssd.core.ngram_drafter import NgramDrafter
from ssd.core.ngram_limits import NgramLimits
from ssd.core.price import CostModel
from ssd.core.rows import Runner
from ssd.core.sampling_params import SamplingParams
from ssd.core.speculation_control import ControlLimits
from ssd.core.verifier import Verifier
from ssd.core.verifier_limits import VerifierLimits
from ssd.core.verifier_outputs import Output as VerifierOutput
from ssd.core.verifier_outputs import ToCoordinator, ToDrafter
from ssd.sampling.draft_law import DraftPolicy
from verifier_service.machine import VerifierMachine

OWNER = "tests"
PEER = "verifier"
DRAFTER = "drafter"
CONTEXT_LEN = 64
ToDrafterMessage = Open | Commit | Close | Rates


@dataclass(frozen=True, slots=True)
class Weather:
    """Chances per message, by which the schedule differs from the ideal one.

    `late` keeps a drafter's message for the next rounds, so that a hit becomes a miss.
    """

    lost: float = 0.0
    doubled: float = 0.0
    late: float = 0.0
    steps_per_round: int = 4


@dataclass(frozen=True, slots=True)
class Shape:
    """How wide and how deep the trees are."""

    max_nodes: int = 8
    num_candidates: int = 4
    frontier: int = 1024
    max_depth: int = 4
    sd_depth: int = 3
    siblings: int = 1  # under rule ratio
    context_len: int = CONTEXT_LEN


CALM = Weather()
TREE = Shape()


@dataclass(frozen=True, slots=True)
class Ngrams:
    """N-gram drafts beside those of a model: made by the verifier, by a process, or by both."""

    limits: NgramLimits
    within: bool = True
    beside: bool = False


NO_NGRAMS = Ngrams(NgramLimits(), within=False)


class Pair:
    """One verifier with at most one drafter of a kind, driven until every text is finished."""

    def __init__(
        self,
        target: Runner[Tensor],
        draft: Runner[Tensor] | None,
        *,
        vocab_size: int,
        shape: Shape = TREE,
        weather: Weather = CALM,
        seed: int = 0,
        ngrams: Ngrams = NO_NGRAMS,
        control: ControlLimits | None = None,
    ) -> None:
        self.num_of: Counter[DrafterKind] = Counter()  # accepted nodes that each kind named
        self.texts: dict[SessionId, list[int]] = {}
        self.num_accepted = self.num_hits = self.num_misses = self.num_proposed = 0
        self._vocab_size, self._shape, self._weather = vocab_size, shape, weather
        self._rng = random.Random(seed)
        self._now = 0.0
        self._num_open = 0
        self._to_verifier: list[tuple[str, Grow | Need | Refused]] = []
        self._to_drafter: list[tuple[str, ToDrafterMessage]] = []
        limits = self._verifier_limits(ngrams.limits if ngrams.within else None)
        limits = replace(limits, control=control or limits.control)
        self._verifier = VerifierMachine(self.core_of(limits), target)
        self._verifier.now = lambda: self._now  # type: ignore[method-assign]
        self._drafters: dict[str, DrafterMachine | NgramMachine] = {}
        if draft is not None:
            core = Drafter(self._drafter_limits())
            policy = DraftPolicy(num_proposals=shape.siblings)
            machine = DrafterMachine(core, draft, vocab_size=vocab_size, policy=policy)
            self._attach(DrafterKind.MODEL, machine)
        if ngrams.beside:
            self._attach(DrafterKind.NGRAM, NgramMachine(NgramDrafter(ngrams.limits)))

    def core_of(self, limits: VerifierLimits) -> Verifier:
        """The verifier's state machine; rows cost nothing, so every tree is verified whole."""
        return Verifier(limits, _free_rows())

    def _attach(self, kind: DrafterKind, machine: DrafterMachine | NgramMachine) -> None:
        self._drafters[kind] = machine
        self._take_verifier(self._verifier.core.drafter_attached(kind, kind))

    def run(self, openings: Sequence[Open], *, num_rounds: int | None = None) -> None:
        """Decode all of them together; the verifier is lost after `num_rounds`, if given."""
        for opening in openings:
            self.texts[opening.session_id] = []
            self._num_open += 1
            self._take_verifier(self._verifier.core.open(opening, owner=OWNER))
        while self._num_open and self._verifier.core.num_rounds != num_rounds:
            self._draft()
            self._deliver_to_verifier()  # no round waits for a draft that is seldom right
            self._now += 0.01
            if self._verifier.run():
                self._deliver_to_verifier()  # what comes while a round runs
                self._take_verifier(self._verifier.settle())
                self._verifier.core.check()
            self._deliver_to_verifier()

    # ── the two ends ──────────────────────────────────────────────────────────────────────────

    def _draft(self) -> None:
        self._deliver_to_drafter()
        for name, drafter in self._drafters.items():
            for _ in range(self._weather.steps_per_round):
                if not drafter.run():
                    break
                self._now += 0.001
                self._deliver_to_drafter()
                self._take_drafter(name, drafter.settle())
                drafter.core.check()

    def _take_verifier(self, outputs: list[VerifierOutput]) -> None:
        self._verifier.release(outputs)
        for output in outputs:
            if isinstance(output, ToDrafter):
                for name in self._drafters:
                    if output.drafter_id in (None, name):
                        self._to_drafter += [(name, output.message)] * self._copies()
            elif isinstance(output, ToCoordinator):
                assert not isinstance(output.message, Ledger), "a core makes none"
                self._book(output.message)

    def _take_drafter(self, name: str, outputs: list[DrafterOutput]) -> None:
        self._drafters[name].release(outputs)
        for output in outputs:
            if isinstance(output, ToVerifier):
                assert not isinstance(output.message, Ledger), "a core makes none"
                self._to_verifier += [(name, output.message)] * self._copies()

    def _book(self, message: Commit | Finished | Refused) -> None:
        assert not isinstance(message, Refused), message
        if isinstance(message, Finished):
            self._num_open -= 1
            return
        assert message.record is not None
        self.texts[message.session_id] += message.token_ids
        self.num_proposed += message.record.num_proposed
        self.num_accepted += message.record.num_accepted
        self.num_hits += message.record.lookup == "hit"
        self.num_misses += message.record.lookup in ("key", "late")
        for part in message.record.drafters:
            self.num_of[part.kind] += part.num_accepted

    # ── the network ───────────────────────────────────────────────────────────────────────────

    def _copies(self) -> int:
        if self._rng.random() < self._weather.lost:
            return 0
        return 2 if self._rng.random() < self._weather.doubled else 1

    def _deliver_to_drafter(self) -> None:
        messages, self._to_drafter = self._to_drafter, []
        for name, message in messages:
            drafter = self._drafters[name]
            match message:
                case Open():
                    self._take_drafter(name, drafter.open(message, peer=PEER))
                case Commit():
                    self._take_drafter(name, drafter.commit(message, peer=PEER))
                case Close():
                    self._take_drafter(name, [*drafter.core.close(message, peer=PEER)])
                case Rates():
                    self._take_drafter(name, [*drafter.core.rates_updated(message)])

    def _deliver_to_verifier(self) -> None:
        messages, self._to_verifier = self._to_verifier, []
        core = self._verifier.core
        for name, message in messages:
            if self._rng.random() < self._weather.late:
                self._to_verifier.append((name, message))
            elif isinstance(message, Grow):
                kind = DrafterKind(name)
                self._take_verifier(core.grow(message, now=self._now, kind=kind))
            elif isinstance(message, Need):
                self._take_verifier(core.need(message, drafter_id=name))
            else:
                self._take_verifier(core.drafter_refused(message, drafter_id=name))

    # ── making it ─────────────────────────────────────────────────────────────────────────────

    def _verifier_limits(self, ngram: NgramLimits | None) -> VerifierLimits:
        return VerifierLimits(
            vocab_size=self._vocab_size,
            context_len=self._shape.context_len,
            kv_slots=2**24,
            max_nodes=self._shape.max_nodes,
            max_rows=2**20,
            sd_depth=self._shape.sd_depth,
            sd_patience_s=0.05,
            ngram=ngram,
        )

    def _drafter_limits(self) -> DrafterLimits:
        shape = self._shape
        return DrafterLimits(
            context_len=shape.context_len,
            kv_slots=2**24,
            growth=GrowthLimits(
                num_candidates=shape.num_candidates,
                frontier=shape.frontier,
                urgent_frontier=shape.frontier,
                max_depth=shape.max_depth,
                max_nodes=24,
            ),
            chain=chain_limits(shape.sd_depth),
            max_rows=2**20,
        )


def openings(
    prompt: Sequence[int],
    *,
    seeds: Sequence[int],
    num_tokens: int,
    mode: Mode,
    params: Callable[[int], SamplingParams] = lambda seed: SamplingParams(seed=seed),
) -> list[Open]:
    """One session per seed, named after it."""
    return [
        Open(
            session_id=SessionId(f"{mode}-{seed}"),
            epoch=Epoch(1),
            token_ids=tuple(prompt),
            prompt_len=len(prompt),
            max_len=len(prompt) + num_tokens,
            params=params(seed),
            mode=mode,
        )
        for seed in seeds
    ]


def texts_of(pair: Pair) -> list[tuple[int, ...]]:
    """All outputs in the order of the openings."""
    return [tuple(text) for text in pair.texts.values()]


def _free_rows() -> CostModel:
    """Rows cost nothing here, so every tree is verified whole."""
    return CostModel([(1, 0.01), (64, 0.01)])
