"""A verifier on a bench: its events by hand, its forwards by a scripted target."""

from collections.abc import Sequence
from dataclasses import replace

from ssd.core.expansion import Expansion
from ssd.core.ids import Epoch, SessionId
from ssd.core.keys import key_of
from ssd.core.ledger import Ledger
from ssd.core.messages import (
    Commit,
    Finished,
    Grow,
    Open,
    Rates,
    Refused,
)
from ssd.core.mode import Mode
from ssd.core.price import CostModel
from ssd.core.verifier import Verifier
from ssd.core.verifier_limits import VerifierLimits
from ssd.core.verifier_outputs import CopyKv, Output, ReleaseKv, ToCoordinator, ToDrafter
from ssd.core.verifier_round import Idle, Round
from tests.models.scripted_model import ScriptedModel
from tests.models.slot_memory import SlotMemory

TEXT = (3, 1, 4)
VOCAB_SIZE = 12
MODEL = ScriptedModel(vocab_size=VOCAB_SIZE, seed=5)
LIMITS = VerifierLimits(
    vocab_size=VOCAB_SIZE, context_len=64, kv_slots=1000, kv_block=1, max_nodes=8, sd_depth=3
)
ROUND_S = 0.01


def free_rows() -> CostModel:
    """More rows cost nothing, until the model learns otherwise."""
    return CostModel([(1, 0.01), (9, 0.01)])


class Bench:
    """A verifier with a target under it, and a clock that only rounds move."""

    def __init__(
        self,
        limits: VerifierLimits = LIMITS,
        *,
        cost: CostModel | None = None,
        now: float = 100.0,
    ) -> None:
        self.core = Verifier(limits, cost or free_rows())
        self.memory = SlotMemory()
        self.now = now
        self.said: list[Commit | Finished | Refused] = []
        self.drafted: list[ToDrafter] = []

    def open(
        self,
        text: Sequence[int] = TEXT,
        *,
        session: str = "a",
        epoch: int = 1,
        max_len: int = 60,
        stops: Sequence[int] = (),
        mode: Mode = Mode.SSD,
        salt: str | None = None,
    ) -> None:
        opening = Open(
            SessionId(session),
            Epoch(epoch),
            tuple(text),
            len(text),
            max_len,
            stop_token_ids=frozenset(stops),
            mode=mode,
            cache_salt=salt,
        )
        self.take(self.core.open(opening, owner="coordinator"))

    def attach(self, drafter_id: str = "drafter") -> None:
        self.take(self.core.drafter_attached(drafter_id))

    def grow(
        self,
        *expansions: Expansion,
        session: str = "a",
        epoch: int = 1,
        base_len: int = 3,
        is_exhausted: bool = False,
    ) -> None:
        grow = Grow(SessionId(session), Epoch(epoch), base_len, expansions, is_exhausted)
        self.take(self.core.grow(grow, now=self.now))

    def grow_chain(self, depth: int, *, text: Sequence[int] = TEXT, session: str = "a") -> None:
        """The target's own continuation, as a drafter that is always right would send it."""
        self.grow(*chain(depth, text), session=session, base_len=len(text))

    def take(self, outputs: list[Output]) -> None:
        for output in outputs:
            if isinstance(output, ReleaseKv):
                self.memory.release(output.kv_id)
            elif isinstance(output, CopyKv):
                assert output.held >= output.num_slots
                self.memory.copy(output.source, output.target, output.num_slots)
            elif isinstance(output, ToDrafter):
                self.drafted.append(output)
            elif isinstance(output, ToCoordinator):
                assert not isinstance(output.message, Ledger), "a core makes none"
                self.said.append(output.message)
        self.core.check()

    @property
    def told_drafters(self) -> list[type]:
        """The kinds of what drafters were told, rates aside."""
        return [type(each.message) for each in self.drafted if not isinstance(each.message, Rates)]

    @property
    def refusals(self) -> list[Refused]:
        return [each for each in self.said if isinstance(each, Refused)]

    def start(self) -> Round:
        action = self.core.next_action(self.now)
        assert isinstance(action, Round), f"nothing to run: {action}"
        return action

    def finish(self, done: Round) -> None:
        seen = self.memory.forward(done.groups)
        target = [[MODEL.next_token(prefix) for prefix in prefixes] for prefixes in seen]
        launch_s, self.now = self.now, self.now + ROUND_S
        self.take(self.core.round_done(done, target, launch_s=launch_s, end_s=self.now))
        for session in self.core.sessions.values():
            assert session.is_prefilling or session.kv_len == session.committed_len - 1

    def round(self) -> Round:
        """Run the next round; waits for nobody."""
        while isinstance(action := self.core.next_action(self.now), Idle):
            assert action.until is not None, "nothing to run"
            self.now = action.until
        self.finish(action)
        return action

    def prefill(self) -> None:
        """A round that has no place for the root: the next one may verify what was drafted."""
        planner = self.core.planner
        planner._limits = replace(self.core.limits, max_rows=len(TEXT) - 1)
        self.round()
        planner._limits = self.core.limits

    def run_out(self) -> None:
        while self.core.sessions:
            self.round()

    def commits(self, session: str = "a") -> list[Commit]:
        return [
            each for each in self.said if isinstance(each, Commit) and each.session_id == session
        ]

    def text(self, session: str = "a") -> tuple[int, ...]:
        """All tokens committed, which must be contiguous."""
        text: list[int] = []
        for commit in self.commits(session):
            assert commit.base_len == len(TEXT) + len(text)
            assert commit.base_key == key_of((*TEXT, *text))
            text += commit.token_ids
        return tuple(text)

    def refusal(self) -> Refused:
        [refusal] = self.said
        assert isinstance(refusal, Refused)
        return refusal

    def end(self) -> Finished:
        [finished] = [each for each in self.said if isinstance(each, Finished)]
        assert finished is self.said[-1]
        return finished


def plain(count: int, *, text: Sequence[int] = TEXT, stops: Sequence[int] = ()) -> tuple[int, ...]:
    return MODEL.continue_text(
        tuple(text), max_len=len(text) + count, stop_token_ids=frozenset(stops)
    )


def chain(depth: int, text: Sequence[int] = TEXT, *, estimate: float = 0.9) -> list[Expansion]:
    prefixes = [(*text, *plain(index, text=text)) for index in range(depth)]
    return [
        Expansion(key_of(prefix), len(prefix), (MODEL.next_token(prefix),), (estimate,))
        for prefix in prefixes
    ]
