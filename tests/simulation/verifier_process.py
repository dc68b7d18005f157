"""A verifier around the real core, on a runner whose every row is checked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from ssd.core.ledger import Ledger
from ssd.core.messages import Close, Commit, Finished, Grow, Need, Open, Refused, Resume
from ssd.core.price import CostModel
from ssd.core.recorded_verifier import RecordedVerifier
from ssd.core.verifier_outputs import CopyKv, ReleaseKv, ToCoordinator, ToDrafter
from ssd.core.verifier_outputs import Output as VerifierOutput
from ssd.core.verifier_round import Idle, Round
from tests.models.slot_memory import SlotMemory
from tests.simulation.brief import brief
from tests.simulation.drafter_process import DrafterProcess, DraftStream, FromDrafter
from tests.simulation.network import Channel
from tests.simulation.stage import Process, Stage

OWNER = "coordinator"
LEASE_S = 0.6
Order = Open | Resume | Close
Report = Commit | Finished | Refused | Ledger


@dataclass(eq=False, slots=True)
class OwnerStream:
    """A coordinator's stream to a verifier."""

    outward: Channel
    back: Channel
    heard: Callable[[Report], None]
    """Takes what the verifier says, at the coordinator."""


class VerifierProcess(Process):
    """One life of a verifier; `instance_id` is that life's."""

    def __init__(self, stage: Stage, name: str, life: int) -> None:
        super().__init__(stage, name)
        self.instance_id = f"{name}, life {life}"
        row_s = stage.rng.choice((0.0, 0.0002, 0.002))
        cost = CostModel([(1, 0.010), (9, 0.010 + 8 * row_s)])
        self.core = RecordedVerifier(stage.scenario.verifier_limits, cost)
        self.memory = SlotMemory()
        self.is_busy = False
        self._streams: dict[str, tuple[DrafterProcess, DraftStream]] = {}
        self._owner: OwnerStream | None = None
        self._num_leases = 0

    # ── the coordinator's side ────────────────────────────────────────────────────────────────

    def accept(self, stream: OwnerStream) -> None:
        """The coordinator dials, for the first time or again."""
        if self._owner is not None:
            self.handle(self.core.owner_away(OWNER))
        self._owner = stream

    def owner_left(self, stream: OwnerStream) -> None:
        """The stream was cut; the coordinator has a lease to come back."""
        if self._owner is stream:
            self._owner = None
            self.handle(self.core.owner_away(OWNER))
            self._num_leases += 1
            self.after(LEASE_S, partial(self._end_lease, self._num_leases))
            self._wake()

    def send(self, stream: OwnerStream, order: Order) -> None:
        """Put an order on the coordinator's stream."""

        def deliver() -> None:
            if self._owner is stream:
                self._obey(order)

        stream.outward.send(lambda: self.act(deliver))

    def ping(self, stream: OwnerStream, number: int) -> None:
        """Ask for a ledger, in order with everything else."""

        def deliver() -> None:
            if self._owner is stream:
                ledger = Ledger(number, self.core.ledger(OWNER))
                stream.back.send(lambda: stream.heard(ledger))

        stream.outward.send(lambda: self.act(deliver))

    def _obey(self, order: Order) -> None:
        self.stage.note(f"{self.name}: {brief(order)}")
        match order:
            case Open():
                self.handle(self.core.open(order, owner=OWNER))
            case Resume():
                self.handle(self.core.resume(order, owner=OWNER))
            case Close():
                self.handle(self.core.close(order))
        self._wake()

    def _end_lease(self, number: int) -> None:
        if self._owner is None and number == self._num_leases:
            self.stage.note(f"{self.name}: lease ended")
            self.handle(self.core.owner_lost(OWNER))
            self._wake()

    # ── the drafters' side ────────────────────────────────────────────────────────────────────

    def attach(self, drafter: DrafterProcess) -> None:
        """Dial a drafter; all sessions go onto the new stream."""
        scenario = self.stage.scenario

        def heard(message: FromDrafter) -> None:
            self.act(lambda: self._hear(stream, drafter.name, message))

        stream = DraftStream(
            self.name,
            self.stage.channel(scenario.to_drafter),
            self.stage.channel(scenario.to_verifier),
            heard,
        )
        drafter.act(lambda: drafter.accept(stream))
        self._streams[drafter.name] = (drafter, stream)
        self.handle(self.core.drafter_attached(drafter.name))
        self._wake()

    def lose(self, drafter: DrafterProcess) -> None:
        known = self._streams.get(drafter.name)
        if known is not None and known[0] is drafter:
            del self._streams[drafter.name]
            self.handle(self.core.drafter_lost(drafter.name))
            self._wake()

    def _hear(self, stream: DraftStream, name: str, message: FromDrafter) -> None:
        if name not in self._streams or self._streams[name][1] is not stream:
            return
        self.stage.note(f"{self.name}: {brief(message)} from {name}")
        match message:
            case Grow():
                self.handle(self.core.grow(message, now=self.stage.loop.now))
            case Need():
                self.handle(self.core.need(message, drafter_id=name))
            case Refused():
                self.handle(self.core.drafter_refused(message, drafter_id=name))
        self._wake()

    # ── work ──────────────────────────────────────────────────────────────────────────────────

    def handle(self, outputs: list[VerifierOutput]) -> None:
        for output in outputs:
            if isinstance(output, ReleaseKv):
                self.memory.release(output.kv_id)
            elif isinstance(output, CopyKv):
                self.memory.copy(output.source, output.target, output.num_slots)
            elif isinstance(output, ToDrafter):
                for name, (drafter, stream) in self._streams.items():
                    if output.drafter_id in (None, name):
                        drafter.send(stream, output.message)
            elif isinstance(output, ToCoordinator):
                self._tell_coordinator(output)

    def end(self) -> None:
        """Nothing is held, and what is cached is all that the runner has; then not even that."""
        pool = self.core.room.pool
        assert pool.num_held == 0, "the verifier still holds KV"
        for kv_id in pool.drop_cached():
            self.memory.release(kv_id)
        assert pool.num_free == pool.num_slots
        assert not self.memory.kv_ids, "the verifier's runner still holds KV"

    def _tell_coordinator(self, output: ToCoordinator) -> None:
        assert output.owner == OWNER
        stream = self._owner
        if stream is not None:
            stream.back.send(lambda: stream.heard(output.message))

    def _wake(self) -> None:
        if self.is_busy:
            return
        loop = self.stage.loop
        action = self.core.next_action(loop.now)
        if isinstance(action, Idle):
            if action.until is not None:
                assert action.until > loop.now, "a wait that is over"
                self.after(action.until - loop.now, self._wake)
            return
        self.is_busy = True
        seen = self.memory.forward(action.groups)
        target = self.stage.scenario.target
        answers = [[target.next_token(prefix) for prefix in prefixes] for prefixes in seen]
        launch_s = loop.now
        self.stage.note(f"{self.name}: round {action.round_id}, {action.num_rows} rows")
        forward_s = self.stage.rng.choice((0.008, 0.010, 0.012, 0.02))
        self.after(forward_s, lambda: self._finish(action, answers, launch_s))

    def _finish(self, done: Round, answers: list[list[int]], launch_s: float) -> None:
        self.is_busy = False
        end_s = self.stage.loop.now
        running = list(self.core.sessions.values())  # some of the round may have left
        self.handle(self.core.round_done(done, answers, launch_s=launch_s, end_s=end_s))
        for share in done.shares:
            if share.planned is not None and share.session in running:
                assert share.session.kv_len == share.session.committed_len - 1, (
                    "a KV row is missing"
                )
        self._wake()
