"""A coordinator, verifiers and drafters around the real core, under simulated time and faults.

What is simulated stands for the shells: it moves messages, runs forwards (on `SlotMemory`, so every
row is checked), and turns lost peers into events. Streams of one life of a process end with it.
After every event all invariants of the core are checked.
"""

from functools import partial

import structlog

from tests.simulation.coordinator_process import Clients, CoordinatorProcess, MemoryJournal
from tests.simulation.drafter_process import DrafterProcess
from tests.simulation.network import Action
from tests.simulation.scenario import Scenario
from tests.simulation.stage import Process, Stage
from tests.simulation.verifier_process import VerifierProcess

_OF_A_VERIFIER = ("verifier", "coordinator stream", "stopped verifier", "drain")
_OF_A_DRAFTER = ("drafter", "stream", "stopped drafter")
LOSSES = (*_OF_A_VERIFIER, *_OF_A_DRAFTER, "coordinator")
DEAD_S = 0.2  # without a sign of life
MAX_EVENTS = 500_000  # far beyond what any schedule needs


class World(Stage):
    """One run. `run()` plays it to its end; a broken promise is an AssertionError."""

    def __init__(self, scenario: Scenario) -> None:
        super().__init__(scenario)
        self.clients = Clients(self)
        self.journal = MemoryJournal()
        self.drafters: dict[str, DrafterProcess] = {}
        self.verifiers: dict[str, VerifierProcess] = {}
        self._num_lives = 0
        self._start_coordinator()
        for index in range(scenario.num_verifiers):
            self._start_verifier(f"verifier-{index}")
        for index in range(len(scenario.drafts)):
            delay_s = self.rng.choice((0.0, 0.0, 0.1))
            self.loop.after(delay_s, partial(self._start_drafter, index))
        for admission in scenario.admissions:
            delay_s = self.rng.choice((0.0, 0.1, self.rng.random())) * scenario.arrivals_s
            self.loop.after(delay_s, partial(self.clients.ask, admission))

    @property
    def verifier(self) -> VerifierProcess:
        """The only one, or the first of several."""
        return self.verifiers["verifier-0"]

    def run(self) -> None:
        """Play until all is said and every order has arrived; all KV is free then."""
        with structlog.testing.capture_logs():
            while self.loop.run_next():
                self.check()
                assert self.loop.num_events < MAX_EVENTS, "the run does not come to an end"
                if self.scenario.crash and self.faults.strikes(self.scenario.crash):
                    self.lose(self.rng.choice(LOSSES))
        self.clients.check_texts()
        for verifier in self.verifiers.values():
            verifier.end()
        for drafter in self.drafters.values():
            drafter.end(is_reliable=self.scenario.to_drafter.is_reliable)

    def check(self) -> None:
        for verifier in self.verifiers.values():
            if not verifier.is_busy:
                verifier.core.check()
        for drafter in self.drafters.values():
            drafter.core.check()

    def lose(self, kind: str, *, away_s: float | None = None) -> None:
        """A process or a stream fails now; what was lost comes back by itself, after `away_s`."""
        self.note(f"lost: {kind}")
        away = self.rng.choice((0.0, 0.05, 0.3, 1.0)) if away_s is None else away_s
        if kind == "coordinator":
            self._crash_coordinator(away)
        elif kind in _OF_A_VERIFIER and self.verifiers:
            verifier = self.verifiers[self.rng.choice(sorted(self.verifiers))]
            self._lose_verifier(kind, verifier, away)
        elif kind in _OF_A_DRAFTER and self.drafters:
            drafter = self.drafters[self.rng.choice(sorted(self.drafters))]
            self._lose_drafter(kind, drafter, away)

    def _lose_verifier(self, kind: str, verifier: VerifierProcess, away_s: float) -> None:
        match kind:
            case "verifier":
                self._crash_verifier(verifier, away_s)
            case "coordinator stream":
                self._cut(verifier, away_s)
            case "stopped verifier":
                self._stop(verifier, away_s, noticed=partial(self._cut, verifier, away_s))
            case "drain":
                self._drain(verifier, away_s)

    def _lose_drafter(self, kind: str, drafter: DrafterProcess, away_s: float) -> None:
        cut = partial(self._cut_draft_streams, drafter, away_s)
        match kind:
            case "drafter":
                self._crash_drafter(drafter, away_s)
            case "stream":
                cut()
            case "stopped drafter":
                self._stop(drafter, away_s, noticed=cut)

    # ── processes ─────────────────────────────────────────────────────────────────────────────

    def _start_coordinator(self) -> None:
        self.coordinator = CoordinatorProcess(self, self.journal, self.clients)
        self.clients.coordinator = self.coordinator
        self.coordinator.restore()
        for verifier in self.verifiers.values():
            self.coordinator.attach(verifier)
        self.clients.come_back()

    def _crash_coordinator(self, away_s: float) -> None:
        """kill -9; the journal stays, perhaps without its last record."""
        if not self.coordinator.is_alive:
            return
        for name in list(self.coordinator.links):
            link = self.coordinator.links[name]
            link.verifier.act(partial(link.verifier.owner_left, link.stream))
        self.coordinator.is_alive = False
        self.coordinator.links.clear()
        if self.journal.records and self.rng.random() < 0.5:
            self.journal.records.pop()
        self.loop.after(away_s, self._start_coordinator)

    def _start_verifier(self, name: str) -> None:
        self._num_lives += 1
        verifier = VerifierProcess(self, name, self._num_lives)
        self.verifiers[name] = verifier
        self.note(f"{name} starts")
        for drafter in self.drafters.values():
            verifier.attach(drafter)
        self._dial(verifier)

    def _crash_verifier(self, verifier: VerifierProcess, away_s: float) -> None:
        """It is gone at once; the one that takes its name starts after a while."""
        verifier.is_alive = False
        for drafter in self.drafters.values():
            drafter.act(partial(drafter.leave, verifier.name))
        coordinator = self.coordinator
        if coordinator.is_alive:
            coordinator.detach(verifier.name)
        del self.verifiers[verifier.name]
        self.loop.after(away_s, partial(self._restart_verifier, verifier))

    def _restart_verifier(self, dead: VerifierProcess) -> None:
        self._start_verifier(dead.name)
        if self.coordinator.is_alive:
            self.coordinator.seating.process_lost(dead.instance_id)

    def _start_drafter(self, index: int) -> None:
        limits, model = self.scenario.drafter_limits[index], self.scenario.drafts[index]
        drafter = DrafterProcess(self, f"drafter-{index}", limits, model)
        self.drafters[drafter.name] = drafter
        self.note(f"{drafter.name} starts")
        for verifier in self.verifiers.values():
            self._attach(verifier, drafter)

    def _crash_drafter(self, drafter: DrafterProcess, away_s: float) -> None:
        del self.drafters[drafter.name]
        drafter.is_alive = False
        for verifier in self.verifiers.values():
            verifier.act(partial(verifier.lose, drafter))
        index = int(drafter.name.partition("-")[2])
        self.loop.after(away_s, partial(self._start_drafter, index))

    def _stop(self, process: Process, away_s: float, *, noticed: Action) -> None:
        """SIGSTOP and, later, SIGCONT; a long stop is taken for death by those who listen."""
        if process.is_stopped or not process.is_alive:
            return
        process.stop()
        if away_s > DEAD_S:
            self.loop.after(DEAD_S, noticed)
        self.loop.after(away_s, process.go_on)

    # ── streams ───────────────────────────────────────────────────────────────────────────────

    def _dial(self, verifier: VerifierProcess) -> None:
        """The coordinator reaches a verifier, if both still are who they were."""
        is_current = self.verifiers.get(verifier.name) is verifier and verifier.is_alive
        if is_current and self.coordinator.is_alive:
            self.coordinator.detach(verifier.name)
            self.coordinator.attach(verifier)

    def _cut(self, verifier: VerifierProcess, away_s: float) -> None:
        is_current = self.verifiers.get(verifier.name) is verifier  # it may have died meanwhile
        if is_current and self.coordinator.is_alive:
            self.coordinator.detach(verifier.name)
            self.loop.after(away_s, partial(self._dial, verifier))

    def _drain(self, verifier: VerifierProcess, away_s: float) -> None:
        """An operator takes a verifier out of use, and puts it back."""
        link = self.coordinator.links.get(verifier.name)
        if link is not None and self.coordinator.is_alive:
            self.coordinator.drain(link, is_draining=True)
            undo = partial(self.coordinator.drain, link, is_draining=False)
            self.coordinator.after(away_s, undo)

    def _attach(self, verifier: VerifierProcess, drafter: DrafterProcess) -> None:
        """A verifier dials a drafter, if both still are who they were."""
        if (
            self.verifiers.get(verifier.name) is verifier
            and self.drafters.get(drafter.name) is drafter
        ):
            verifier.act(partial(verifier.attach, drafter))

    def _cut_draft_stream(
        self, verifier: VerifierProcess, drafter: DrafterProcess, away_s: float
    ) -> None:
        verifier.act(partial(verifier.lose, drafter))
        drafter.act(partial(drafter.leave, verifier.name))
        self.loop.after(away_s, partial(self._attach, verifier, drafter))

    def _cut_draft_streams(self, drafter: DrafterProcess, away_s: float) -> None:
        for verifier in self.verifiers.values():
            self._cut_draft_stream(verifier, drafter, away_s)
