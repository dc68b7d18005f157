"""A drafter around the real core; it may serve several verifiers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ssd.core.draft_step import Step
from ssd.core.drafter_limits import DrafterLimits
from ssd.core.drafter_outputs import CopyDraftKv, ReleaseDraftKv, ToVerifier
from ssd.core.drafter_outputs import Output as DrafterOutput
from ssd.core.ledger import Ledger
from ssd.core.messages import Close, Commit, Grow, Need, Open, Rates, Refused
from ssd.core.recorded_drafter import RecordedDrafter
from tests.models.scripted_model import DraftModel
from tests.models.slot_memory import SlotMemory
from tests.simulation.brief import brief
from tests.simulation.network import Channel
from tests.simulation.stage import Process, Stage

ToDrafterMessage = Open | Commit | Close | Rates
FromDrafter = Grow | Need | Refused


@dataclass(eq=False, slots=True)
class DraftStream:
    """A verifier's stream to a drafter; both ends forget it when it is cut."""

    peer: str
    """The verifier's name."""
    outward: Channel
    back: Channel
    heard: Callable[[FromDrafter], None]
    """Takes what the drafter says, at the verifier."""
    is_open: bool = True


class DrafterProcess(Process):
    """One life of a drafter."""

    def __init__(self, stage: Stage, name: str, limits: DrafterLimits, model: DraftModel) -> None:
        super().__init__(stage, name)
        self.core = RecordedDrafter(limits)
        self.memory = SlotMemory()
        self.is_busy = False
        self._model = model
        self._streams: dict[str, DraftStream] = {}

    def accept(self, stream: DraftStream) -> None:
        """A verifier dials; what an earlier stream of it held ends."""
        self.leave(stream.peer)
        self._streams[stream.peer] = stream

    def leave(self, peer: str) -> None:
        """A verifier's stream has ended."""
        if self._streams.pop(peer, None) is not None:
            self.handle(self.core.peer_lost(peer))

    def send(self, stream: DraftStream, message: ToDrafterMessage) -> None:
        """Put a message on a stream to this drafter."""

        def deliver() -> None:
            if self._streams.get(stream.peer) is stream:
                self._receive(stream.peer, message)

        stream.outward.send(lambda: self.act(deliver))

    def handle(self, outputs: list[DrafterOutput]) -> None:
        for output in outputs:
            if isinstance(output, ToVerifier):
                self._tell_verifier(output)
            elif isinstance(output, ReleaseDraftKv):
                self.memory.release(output.kv_id)
            elif isinstance(output, CopyDraftKv):
                self.memory.copy(output.source, output.target, output.num_slots)

    def end(self, *, is_reliable: bool) -> None:
        """Nothing is held, and what is cached is all that the runner has; then not even that.

        On an unreliable network a close may have been lost; its session goes with the stream.
        """
        for peer in list(self._streams) if not is_reliable else ():
            self.leave(peer)
        assert self.core.num_reserved_slots == 0, "a drafter still holds KV"
        for kv_id in self.core.pool.drop_cached():
            self.memory.release(kv_id)
        assert self.core.pool.num_free == self.core.pool.num_slots
        assert not self.memory.kv_ids, "a drafter's runner still holds KV"

    def _receive(self, peer: str, message: ToDrafterMessage) -> None:
        self.stage.note(f"{self.name}: {brief(message)}")
        if isinstance(message, Open):
            self.handle(self.core.open(message, peer=peer))
        elif isinstance(message, Commit):
            self.handle(self.core.commit(message, peer=peer))
        elif isinstance(message, Close):
            self.handle(self.core.close(message, peer=peer))
        else:
            self.handle(self.core.rates_updated(message))
        self._wake()

    def _tell_verifier(self, output: ToVerifier) -> None:
        stream, message = self._streams.get(output.peer), output.message
        assert not isinstance(message, Ledger), "a core makes none"
        if stream is not None:
            stream.back.send(lambda: stream.heard(message))

    def _wake(self) -> None:
        if self.is_busy:
            return
        step = self.core.next_step()
        if step is None:
            return
        self.is_busy = True
        seen = self.memory.forward(step.groups)
        start_s = self.stage.loop.now
        step_s = self.stage.rng.choice((0.001, 0.002, 0.002, 0.008))
        self.after(step_s, lambda: self._finish(step, seen, start_s))

    def _finish(self, step: Step, seen: list[list[tuple[int, ...]]], start_s: float) -> None:
        self.is_busy = False
        count = self.core.limits.growth.num_candidates
        answers = [self._model.ranked(prefix, count) for prefixes in seen for prefix in prefixes]
        end_s = self.stage.loop.now
        self.handle(self.core.step_done(step, answers, start_s=start_s, end_s=end_s))
        self._wake()
