"""A drafter on a bench: its events by hand, its forwards by a scripted model."""

from collections.abc import Sequence

from ssd.core.draft_step import Candidates, Step
from ssd.core.drafter import Drafter
from ssd.core.drafter_limits import DrafterLimits
from ssd.core.drafter_outputs import CopyDraftKv, Output, ReleaseDraftKv, ToVerifier
from ssd.core.growth import GrowthLimits, chain_limits
from ssd.core.ids import Epoch, SessionId
from ssd.core.keys import key_of
from ssd.core.ledger import Ledger
from ssd.core.messages import Close, Commit, Grow, Need, Open, Refused
from ssd.core.mode import Mode
from tests.models.scripted_model import ScriptedModel
from tests.models.slot_memory import SlotMemory

PEER = "verifier"
TEXT = (3, 1, 4)
MODEL = ScriptedModel(seed=5)
SD_DEPTH = 4
LIMITS = DrafterLimits(
    context_len=64,
    kv_slots=1000,
    kv_block=1,
    growth=GrowthLimits(
        num_candidates=2,
        frontier=4,
        max_depth=4,
        min_reach=1e-6,
        min_step_reach=0.0,
        max_nodes=20,
        push_reach=1.0,
    ),
    chain=chain_limits(SD_DEPTH),
)


def keys(grow: Grow) -> list[int]:
    return [each.key for each in grow.expansions]


class Bench:
    """A drafter with a model under it: steps run at once, messages collect."""

    def __init__(self, limits: DrafterLimits = LIMITS) -> None:
        self.core = Drafter(limits)
        self.memory = SlotMemory()
        self.sent: list[Grow | Need | Refused] = []

    def open(
        self,
        text: Sequence[int] = TEXT,
        *,
        session: str = "a",
        epoch: int = 1,
        max_len: int = 60,
        mode: Mode = Mode.SSD,
        salt: str | None = None,
    ) -> None:
        opening = Open(
            SessionId(session),
            Epoch(epoch),
            tuple(text),
            len(text),
            max_len,
            mode=mode,
            cache_salt=salt,
        )
        self.take(self.core.open(opening, peer=PEER))

    def commit(
        self, text: Sequence[int], *token_ids: int, session: str = "a", epoch: int = 1
    ) -> None:
        self.take(
            self.core.commit(
                Commit(SessionId(session), Epoch(epoch), len(text), key_of(text), token_ids),
                peer=PEER,
            )
        )

    def close(self, *, session: str = "a", epoch: int = 1) -> None:
        self.take(self.core.close(Close(SessionId(session), Epoch(epoch)), peer=PEER))

    def take(self, outputs: list[Output]) -> None:
        for output in outputs:
            if isinstance(output, ToVerifier):
                assert output.peer == PEER
                assert not isinstance(output.message, Ledger), "a core makes none"
                self.sent.append(output.message)
            elif isinstance(output, ReleaseDraftKv):
                self.memory.release(output.kv_id)
            elif isinstance(output, CopyDraftKv):
                assert output.held >= output.num_slots
                self.memory.copy(output.source, output.target, output.num_slots)
        self.core.check()

    def start(self) -> Step | None:
        """The first half of a step; the forward runs."""
        step = self.core.next_step()
        self.core.check()
        return step

    def finish(self, step: Step) -> None:
        self.take(self.core.step_done(step, self.answers(step), start_s=1.0, end_s=1.5))

    def answers(self, step: Step) -> list[Candidates]:
        seen = self.memory.forward(step.groups)
        return [MODEL.ranked(prefix, 2) for prefixes in seen for prefix in prefixes]

    def step(self) -> Step | None:
        step = self.start()
        if step is not None:
            self.finish(step)
        return step

    def grow_all(self) -> int:
        """Step until nothing is worth growing; how many steps that took."""
        for number in range(1000):
            if self.step() is None:
                return number
        raise AssertionError("the drafter never rests")

    def grown(self) -> list[Grow]:
        return [message for message in self.sent if isinstance(message, Grow)]

    def positions(self) -> list[list[int]]:
        """Positions of the expansions, message by message."""
        return [[each.position for each in grow.expansions] for grow in self.grown()]


def chain(depth: int, text: Sequence[int] = TEXT) -> tuple[int, ...]:
    return MODEL.continue_text(tuple(text), max_len=len(text) + depth)


def rows(step: Step | None) -> list[tuple[int, ...]]:
    assert step is not None
    return [group.token_ids for group in step.groups]
