"""A coordinator, a verifier and drafters around the real core, under simulated time and faults.

What is simulated stands for the shells: it moves messages, runs forwards (on `SlotMemory`, so every
row is checked), and turns lost peers into events. Streams of one life of a process end with it.
After every event all invariants of the core are checked.
"""

from functools import partial
from random import Random

from ssd.core.client_session import Admission, ClientSession, Reconciled
from ssd.core.draft_step import Step
from ssd.core.drafter import Drafter
from ssd.core.drafter_limits import DrafterLimits
from ssd.core.drafter_outputs import CopyDraftKv, ReleaseDraftKv, ToVerifier
from ssd.core.drafter_outputs import Output as DrafterOutput
from ssd.core.ids import SessionId
from ssd.core.messages import Close, Commit, Finished, Grow, Need, Open, Rates, Refused
from ssd.core.price import CostModel
from ssd.core.verifier import Verifier
from ssd.core.verifier_outputs import CopyKv, ReleaseKv, ToCoordinator, ToDrafter
from ssd.core.verifier_outputs import Output as VerifierOutput
from ssd.core.verifier_round import Idle, Round
from tests.models.scripted_model import DraftModel
from tests.models.slot_memory import SlotMemory
from tests.simulation.network import CALM, Channel, EventLoop, FaultBudget, Weather
from tests.simulation.scenario import Scenario

VERIFIER = "verifier"
OWNER = "coordinator"
LOSSES = ("drafter", "drafter", "stream", "verifier", "coordinator stream")
PATIENCE_S = 2.0
MAX_EVENTS = 500_000  # far beyond what any schedule needs


class World:
    """One run. `run()` plays it to its end; a broken promise is an AssertionError."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.rng = Random(f"world {scenario.seed}")
        self.loop = EventLoop()
        self.faults = FaultBudget(self.rng, scenario.num_faults, scenario.kept_faults)
        self.log: list[str] = []
        self.coordinator = CoordinatorProcess(self)
        self.verifier = VerifierProcess(self)
        self.drafters: dict[str, DrafterProcess] = {}
        for index in range(len(scenario.drafts)):
            delay_s = self.rng.choice((0.0, 0.0, 0.1))
            self.loop.after(delay_s, partial(self._start, index))
        for admission in scenario.admissions:
            delay_s = self.rng.choice((0.0, 0.1, self.rng.random())) * scenario.arrivals_s
            self.loop.after(delay_s, partial(self.coordinator.admit, admission))

    def run(self) -> None:
        """Play until nothing is planned any more; every text has ended then, and all KV is free."""
        while self.loop.run_next():
            self.check()
            assert self.loop.num_events < MAX_EVENTS, "the run does not come to an end"
            if self.scenario.crash and self.faults.strikes(self.scenario.crash):
                self.lose(self.rng.choice(LOSSES))
        self.coordinator.check_texts()
        self.verifier.check_free()
        is_reliable = self.scenario.to_drafter.is_reliable
        for drafter in self.drafters.values():
            if (
                not is_reliable
            ):  # the close may have been lost; the session goes with the stream then
                drafter.handle(drafter.core.peer_lost(VERIFIER))
            drafter.check_free()

    def check(self) -> None:
        if not self.verifier.is_busy:
            self.verifier.core.check()
        for drafter in self.drafters.values():
            drafter.core.check()

    def note(self, text: str) -> None:
        self.log.append(f"{self.loop.now - 1000.0:8.4f} {text}")

    def channel(self, weather: Weather) -> Channel:
        return Channel(self.loop, self.faults, weather)

    def attach(self, drafter: "DrafterProcess") -> None:
        """The verifier dials a drafter: a new stream, and all sessions on it."""
        if self.drafters.get(drafter.name) is drafter:
            drafter.connect(self.verifier)
            self.verifier.attach(drafter)

    def detach(self, drafter: "DrafterProcess") -> None:
        """The stream between the verifier and a drafter ends; both notice."""
        self.verifier.lose(drafter)
        drafter.handle(drafter.core.peer_lost(VERIFIER))
        drafter.disconnect()

    def lose(self, kind: str, *, away_s: float | None = None) -> None:
        """A process or a stream fails now; a drafter comes back by itself, after `away_s`."""
        self.note(f"lost: {kind}")
        if kind == "verifier":
            self._crash_verifier()
        elif kind == "coordinator stream":
            self.verifier.lose_owner()
            self.coordinator.reopen_all()
        elif self.drafters:
            drafter = self.drafters[self.rng.choice(sorted(self.drafters))]
            if kind == "drafter":
                del self.drafters[drafter.name]
                self.verifier.lose(drafter)
                drafter.disconnect()
                index = int(drafter.name.partition("-")[2])
                self.loop.after(away_s or self.rng.choice((0.01, 0.3)), partial(self._start, index))
            else:
                self.detach(drafter)
                self.loop.after(
                    away_s or self.rng.choice((0.0, 0.05)), partial(self.attach, drafter)
                )

    def _start(self, index: int) -> None:
        limits, model = self.scenario.drafter_limits[index], self.scenario.drafts[index]
        drafter = DrafterProcess(self, f"drafter-{index}", limits, model)
        self.drafters[drafter.name] = drafter
        self.note(f"{drafter.name} starts")
        self.attach(drafter)

    def _crash_verifier(self) -> None:
        self.verifier.is_alive = False
        self.verifier = VerifierProcess(self)
        for drafter in self.drafters.values():
            drafter.handle(drafter.core.peer_lost(VERIFIER))
            drafter.disconnect()
            self.attach(drafter)
        self.coordinator.reopen_all()


class CoordinatorProcess:
    """Books, cancels and timeouts; its texts are what a client would have seen."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.sessions: dict[SessionId, ClientSession] = {}
        self.cancelled: set[SessionId] = set()

    def admit(self, admission: Admission) -> None:
        session = ClientSession(admission)
        self.sessions[admission.session_id] = session
        self._open(session)
        if self._world.rng.random() < self._world.scenario.cancel:
            delay_s = self._world.rng.uniform(0.0, 0.5)
            self._world.loop.after(delay_s, lambda: self._cancel(session))

    def reopen_all(self) -> None:
        """The verifier, or the stream to it, was lost."""
        for session in self.sessions.values():
            self._open(session)

    def receive(self, message: Commit | Finished | Refused) -> None:
        session = self.sessions[message.session_id]
        if self._is_over(session):
            return
        if isinstance(message, Refused):
            if message.epoch == session.epoch:
                assert message.kind in ("NoCapacity", "Preempted"), f"refused: {message}"
                self._world.loop.after(0.1, lambda: self._open_if_still(session, message.epoch))
            return
        if isinstance(message, Commit):
            reconciled = session.commit(message)
        else:
            reconciled = session.finish(message)
        self._world.note(f"coordinator: {reconciled.value} {_brief(message)}")
        if reconciled is Reconciled.OPEN:
            self._open(session)

    def check_texts(self) -> None:
        """Every text equals plain decoding; a cancelled one is the beginning of it."""
        assert len(self.sessions) == len(self._world.scenario.admissions)
        for session in self.sessions.values():
            admission = session.admission
            expected = self._world.scenario.target.continue_text(
                admission.prompt_token_ids,
                max_len=admission.max_len,
                stop_token_ids=admission.stop_token_ids,
            )
            text = session.output_token_ids
            if admission.session_id in self.cancelled:
                expected = expected[: len(text)]
            else:
                assert session.is_finished, f"{admission.session_id} never ended"
            assert text == expected, f"{admission.session_id} says {text}, not {expected}"

    def _is_over(self, session: ClientSession) -> bool:
        return session.is_finished or session.admission.session_id in self.cancelled

    def _open(self, session: ClientSession) -> None:
        if self._is_over(session) or session.settle_locally() is not None:
            return
        opening = session.open()
        self._world.note(f"coordinator: {_brief(opening)}")
        self._world.verifier.from_coordinator(opening)
        have = session.committed_len
        self._world.loop.after(PATIENCE_S, lambda: self._look_after(session, opening.epoch, have))

    def _look_after(self, session: ClientSession, epoch: int, had_len: int) -> None:
        """Open anew what has stood still for long: its messages were lost."""
        if self._is_over(session) or session.epoch != epoch:
            return
        if session.committed_len == had_len:
            self._open(session)
            return
        have = session.committed_len
        self._world.loop.after(PATIENCE_S, lambda: self._look_after(session, epoch, have))

    def _open_if_still(self, session: ClientSession, epoch: int) -> None:
        if session.epoch == epoch:
            self._open(session)

    def _cancel(self, session: ClientSession) -> None:
        if not self._is_over(session):
            self.cancelled.add(session.admission.session_id)
            close = Close(session.admission.session_id, session.epoch)
            self._world.note(f"coordinator: {_brief(close)}")
            self._world.verifier.from_coordinator(close)


class VerifierProcess:
    """One life of the verifier."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.core = Verifier(
            world.scenario.verifier_limits,
            CostModel([(1, 0.010), (9, 0.010 + 8 * world.rng.choice((0.0, 0.0002, 0.002)))]),
        )
        self.memory = SlotMemory()
        self.is_busy = False
        self.is_alive = True
        self.num_tokens = 0
        self._streams: dict[str, tuple[DrafterProcess, Channel]] = {}
        self._from_coordinator = world.channel(world.scenario.from_coordinator)
        self._to_coordinator = world.channel(world.scenario.to_coordinator)
        self._life = 0

    def attach(self, drafter: "DrafterProcess") -> None:
        channel = self._world.channel(self._world.scenario.to_drafter)
        self._streams[drafter.name] = (drafter, channel)
        self.handle(self.core.drafter_attached(drafter.name))
        self._wake()

    def lose(self, drafter: "DrafterProcess") -> None:
        known = self._streams.get(drafter.name)
        if known is not None and known[0] is drafter:
            del self._streams[drafter.name]
            self.handle(self.core.drafter_lost(drafter.name))
            self._wake()

    def lose_owner(self) -> None:
        """The coordinator's stream ends; what was on its way is gone."""
        self._life += 1
        self._from_coordinator = self._world.channel(self._world.scenario.from_coordinator)
        self._to_coordinator = self._world.channel(self._world.scenario.to_coordinator)
        self.handle(self.core.owner_lost(OWNER))
        self._wake()

    def from_coordinator(self, message: Open | Close) -> None:
        life = self._life

        def deliver() -> None:
            if self.is_alive and life == self._life:
                if isinstance(message, Open):
                    self.handle(self.core.open(message, owner=OWNER))
                else:
                    self.handle(self.core.close(message))
                self._wake()

        self._from_coordinator.send(deliver)

    def receive(self, message: Grow | Need | Refused, drafter: "DrafterProcess") -> None:
        self._world.note(f"verifier: {_brief(message)} from {drafter.name}")
        if isinstance(message, Grow):
            self.handle(self.core.grow(message, now=self._world.loop.now))
        elif isinstance(message, Need):
            self.handle(self.core.need(message, drafter_id=drafter.name))
        else:
            self.handle(self.core.drafter_refused(message, drafter_id=drafter.name))
        self._wake()

    def handle(self, outputs: list[VerifierOutput]) -> None:
        for output in outputs:
            if isinstance(output, ReleaseKv):
                self.memory.release(output.kv_id)
            elif isinstance(output, CopyKv):
                self.memory.copy(output.source, output.target, output.num_slots)
            elif isinstance(output, ToDrafter):
                for name, (drafter, channel) in self._streams.items():
                    if output.drafter_id in (None, name):
                        drafter.accept(output.message, channel)
            elif isinstance(output, ToCoordinator):
                self._tell_coordinator(output)

    def check_free(self) -> None:
        """Nothing is held, and what is cached is all that the runner has; then not even that."""
        pool = self.core.room.pool
        assert pool.num_held == 0, "the verifier still holds KV"
        for kv_id in pool.drop_cached():
            self.memory.release(kv_id)
        assert pool.num_free == pool.num_slots
        assert not self.memory.kv_ids, "the verifier's runner still holds KV"

    def _tell_coordinator(self, output: ToCoordinator) -> None:
        assert output.owner == OWNER
        life, coordinator = self._life, self._world.coordinator

        def deliver() -> None:
            if self.is_alive and life == self._life:
                coordinator.receive(output.message)

        self._to_coordinator.send(deliver)

    def _wake(self) -> None:
        if self.is_busy or not self.is_alive:
            return
        loop = self._world.loop
        action = self.core.next_action(loop.now)
        if isinstance(action, Idle):
            if action.until is not None:
                assert action.until > loop.now, "a wait that is over"
                loop.after(action.until - loop.now, self._wake)
            return
        self.is_busy = True
        seen = self.memory.forward(action.groups)
        target = self._world.scenario.target
        answers = [[target.next_token(prefix) for prefix in prefixes] for prefixes in seen]
        launch_s = loop.now
        self._world.note(f"verifier: round {action.round_id}, {action.num_rows} rows")
        forward_s = self._world.rng.choice((0.008, 0.010, 0.012, 0.02))
        loop.after(forward_s, lambda: self._finish(action, answers, launch_s))

    def _finish(self, done: Round, answers: list[list[int]], launch_s: float) -> None:
        if not self.is_alive:
            return
        self.is_busy = False
        end_s = self._world.loop.now
        self.handle(self.core.round_done(done, answers, launch_s=launch_s, end_s=end_s))
        for share in done.shares:
            if share.planned is not None:
                assert share.session.kv_len == share.session.committed_len - 1, (
                    "a KV row is missing"
                )
        self._wake()


class DrafterProcess:
    """One life of a drafter."""

    def __init__(self, world: World, name: str, limits: DrafterLimits, model: DraftModel) -> None:
        self.name = name
        self.core = Drafter(limits)
        self.memory = SlotMemory()
        self.is_busy = False
        self._world = world
        self._model = model
        self._verifier: VerifierProcess | None = None
        self._num_streams = 0
        self._channel = world.channel(CALM)

    def connect(self, verifier: VerifierProcess) -> None:
        self._verifier = verifier
        self._num_streams += 1
        self._channel = self._world.channel(self._world.scenario.to_verifier)

    def disconnect(self) -> None:
        self._verifier = None

    def accept(self, message: Open | Commit | Close | Rates, channel: Channel) -> None:
        """Put a message on the stream to this drafter."""
        stream = self._num_streams

        def deliver() -> None:
            if self._verifier is not None and self._num_streams == stream:
                self._receive(message)

        channel.send(deliver)

    def handle(self, outputs: list[DrafterOutput]) -> None:
        for output in outputs:
            if isinstance(output, ToVerifier):
                self._tell_verifier(output)
            elif isinstance(output, ReleaseDraftKv):
                self.memory.release(output.kv_id)
            elif isinstance(output, CopyDraftKv):
                self.memory.copy(output.source, output.target, output.num_slots)

    def check_free(self) -> None:
        """Nothing is held, and what is cached is all that the runner has; then not even that."""
        assert self.core.num_reserved_slots == 0, "a drafter still holds KV"
        for kv_id in self.core.pool.drop_cached():
            self.memory.release(kv_id)
        assert self.core.pool.num_free == self.core.pool.num_slots
        assert not self.memory.kv_ids, "a drafter's runner still holds KV"

    def _receive(self, message: Open | Commit | Close | Rates) -> None:
        self._world.note(f"{self.name}: {_brief(message)}")
        if isinstance(message, Open):
            self.handle(self.core.open(message, peer=VERIFIER))
        elif isinstance(message, Commit):
            self.handle(self.core.commit(message, peer=VERIFIER))
        elif isinstance(message, Close):
            self.handle(self.core.close(message, peer=VERIFIER))
        else:
            self.handle(self.core.rates_updated(message))
        self._wake()

    def _tell_verifier(self, output: ToVerifier) -> None:
        assert output.peer == VERIFIER
        verifier, stream = self._verifier, self._num_streams

        def deliver() -> None:
            is_connected = self._verifier is verifier and self._num_streams == stream
            if is_connected and verifier is not None and verifier.is_alive:
                verifier.receive(output.message, self)

        self._channel.send(deliver)

    def _wake(self) -> None:
        if self.is_busy:
            return
        step = self.core.next_step()
        if step is None:
            return
        self.is_busy = True
        seen = self.memory.forward(step.groups)
        start_s = self._world.loop.now
        step_s = self._world.rng.choice((0.001, 0.002, 0.002, 0.008))
        self._world.loop.after(step_s, lambda: self._finish(step, seen, start_s))

    def _finish(self, step: Step, seen: list[list[tuple[int, ...]]], start_s: float) -> None:
        self.is_busy = False
        count = self.core.limits.growth.num_candidates
        answers = [self._model.ranked(prefix, count) for prefixes in seen for prefix in prefixes]
        end_s = self._world.loop.now
        self.handle(self.core.step_done(step, answers, start_s=start_s, end_s=end_s))
        self._wake()


def _brief(message: Open | Commit | Close | Rates | Grow | Need | Refused | Finished) -> str:
    name = type(message).__name__
    if isinstance(message, Rates):
        return name
    text = f"{name} {message.session_id}.{message.epoch}"
    if isinstance(message, Commit):
        return f"{text} at {message.base_len}: {message.token_ids}"
    if isinstance(message, Open):
        return f"{text} with {len(message.token_ids)} of {message.max_len}, {message.mode}"
    if isinstance(message, Grow):
        positions = [each.position for each in message.expansions]
        done = ", exhausted" if message.is_exhausted else ""
        return f"{text} at {message.base_len}: expansions at {positions}{done}"
    return text
