"""A coordinator under simulated time: its real seating, reports, books and journal's records.

What is simulated stands for streams and clients. A client that is refused for want of room asks
again; one whose coordinator died resumes, or asks anew where the journal does not know it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from coordinator.journal_records import Admitted, Record
from coordinator.journal_state import JournalState
from coordinator.live_session import LiveSession, MoveReason
from coordinator.reports import Reports
from coordinator.seating import Seating
from coordinator.session_notes import SessionNotes
from ssd.core.client_session import Admission, ClientSession
from ssd.core.credit import Credit
from ssd.core.errors import NoCapacity, Poisoned
from ssd.core.flight_recorder import FlightRecorder
from ssd.core.ids import SessionId
from ssd.core.ledger import Ledger
from ssd.core.messages import Close, Open, Resume
from ssd.core.recorded_books import BooksFlights, RecordedBooks
from tests.simulation.stage import Process, Stage
from tests.simulation.verifier_process import OwnerStream, Report, VerifierProcess

KIND = "the only fingerprint"
RESUME_S = 0.3
REOPEN_S = 1e9  # clients of a simulated run are patient
HEARTBEAT_S = 0.15
RETRY_S = 0.1


class MemoryJournal:
    """The records of all lives; a crash may take the last one with it."""

    def __init__(self) -> None:
        self.records: list[Record] = []

    def write(self, record: Record) -> None:
        self.records.append(record)

    def check_room(self) -> None:
        """There is always room."""

    async def settled(self) -> None:
        """Nothing waits for a disk."""

    def state(self) -> JournalState:
        state = JournalState()
        for record in self.records:
            state.apply(record)
        return state


class Link:
    """The coordinator's end of one stream to a verifier; a `VerifierSeat`."""

    def __init__(self, coordinator: CoordinatorProcess, verifier: VerifierProcess) -> None:
        self.name = verifier.name
        self.fingerprint = KIND
        self.instance_id = verifier.instance_id
        self.is_draining = False
        self.credit: Credit | None = None
        self.num_pings = 0
        self.verifier = verifier
        self.is_quiet = False  # everybody is served, and the verifier holds nothing any more
        self._quiet_from: int | None = None
        self._coordinator = coordinator
        scenario = coordinator.stage.scenario
        self.stream = OwnerStream(
            coordinator.stage.channel(scenario.from_coordinator),
            coordinator.stage.channel(scenario.to_coordinator),
            lambda report: coordinator.act(lambda: coordinator.receive(self, report)),
        )

    def send(self, orders: Iterable[Open | Resume | Close]) -> None:
        for order in orders:
            self.verifier.send(self.stream, order)

    def beat(self) -> None:
        """One heartbeat, and the next for as long as somebody may need its answer."""
        if self.is_quiet or self._coordinator.links.get(self.name) is not self:
            return
        self.num_pings += 1
        if self._quiet_from is None and self._coordinator.clients.are_served:
            self._quiet_from = self.num_pings
        self.verifier.ping(self.stream, self.num_pings)
        self._coordinator.after(HEARTBEAT_S, self.beat)

    def listen(self, ledger: Ledger) -> None:
        was_asked = self._quiet_from is not None and ledger.number >= self._quiet_from
        self.is_quiet = was_asked and not ledger.entries


class CoordinatorProcess(Process):
    """One life of the coordinator."""

    def __init__(self, stage: Stage, journal: MemoryJournal, clients: Clients) -> None:
        super().__init__(stage, "coordinator")
        self.sessions: dict[SessionId, LiveSession] = {}
        self.links: dict[str, Link] = {}
        self.clients = clients
        self.flights: BooksFlights = FlightRecorder()
        self._journal = journal
        self._notes = SessionNotes(journal)
        floor = round(stage.loop.now * 1000)  # milliseconds, as the service takes it
        self.seating = Seating(
            self.sessions, self._notes, self, resume_s=RESUME_S, epoch_floor=floor
        )
        self._reports = Reports(
            self.sessions,
            self.seating,
            self._notes,
            self,
            reopen_s=REOPEN_S,
            broken=self._fail,
        )

    def time(self) -> float:
        return self.stage.loop.now

    def call_later(self, delay: float, callback: Callable[..., Any], *args: Any) -> None:
        """What a life planned ends with it."""
        self.after(delay, partial(callback, *args))

    def restore(self) -> None:
        """Go on with what an earlier life wrote down, as `SessionTable.restore` does."""
        for session_id, session in self._journal.state().sessions.items():
            books = session.books()
            books.record_in(self.flights)
            live = LiveSession(books, KIND)
            live.move_reason = MoveReason.RESTART
            if live.books.settle_locally() is not None or live.books.is_finished:
                self.clients.done(live.books)
                continue
            live.is_running = True
            self.sessions[session_id] = live
            if session.instance_id:
                self.seating.wait_for_return(live, session.instance_id)

    def attach(self, verifier: VerifierProcess) -> None:
        """Dial a verifier; the stream stands once it has answered."""
        link = self.links[verifier.name] = Link(self, verifier)

        def answer() -> None:
            verifier.accept(link.stream)
            self.act(lambda: self._attached(link))

        verifier.act(answer)

    def _attached(self, link: Link) -> None:
        if self.links.get(link.name) is link:
            self.seating.add(link)
            link.beat()
            self._look()

    def detach(self, name: str) -> None:
        """The stream to a verifier is cut; both notice."""
        link = self.links.pop(name, None)
        if link is not None:
            verifier = link.verifier
            verifier.act(lambda: verifier.owner_left(link.stream))
            self.seating.remove(link)
            self._look()

    def admit(self, admission: Admission) -> None:
        if admission.session_id in self.sessions:
            return
        books = RecordedBooks(admission)
        books.epoch = self.seating.epoch_floor
        live = LiveSession(books, KIND, is_running=True)
        books.record_in(self.flights)
        self.sessions[admission.session_id] = live
        self._journal.write(Admitted(admission, KIND, self.stage.loop.now))
        self.seating.place(live)
        self._look()

    def drain(self, link: Link, *, is_draining: bool) -> None:
        """An operator takes a verifier out of use, or puts it back."""
        self.seating.drain(link, is_draining=is_draining)
        self._look()

    def cancel(self, session_id: SessionId) -> None:
        """Its client left, and wants no more of it."""
        live = self.sessions.get(session_id)
        if live is not None:
            self.stage.note(f"coordinator: cancelled {session_id}")
            live.leave_seat()
            self._let_go(live)
            self._notes.forget(session_id)
            self.clients.done(live.books)

    def receive(self, link: Link, report: Report) -> None:
        if self.links.get(link.name) is not link:
            return
        if isinstance(report, Ledger):
            link.listen(report)
            self._reports.compare(link, report)
        else:
            self._reports.take(report)
        self._look()

    def _look(self) -> None:
        """See whom the last event finished or failed."""
        for live in list(self.sessions.values()):
            if live.error is not None:
                live.leave_seat()
                self._let_go(live)
                self._notes.forget(live.session_id)
                self.clients.refused(live.books, live.error)
            elif live.books.is_finished:
                self._let_go(live)
                self.clients.done(live.books)

    def _let_go(self, live: LiveSession) -> None:
        del self.sessions[live.session_id]
        self.flights.ended(live.session_id)
        live.is_running = False
        self.seating.epoch_floor = max(self.seating.epoch_floor, live.books.epoch)
        self.seating.try_suspects()

    def _fail(self, session_id: SessionId, words: str) -> None:
        raise AssertionError(f"{session_id}: {words}")


class Clients:
    """Who asked for texts, and what they got."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self.coordinator: CoordinatorProcess
        self.texts: dict[SessionId, ClientSession] = {}
        self.cancelled: set[SessionId] = set()
        self.poisoned: set[SessionId] = set()
        self._asked: dict[SessionId, Admission] = {}

    def ask(self, admission: Admission) -> None:
        """A client comes; some leave before their text has ended."""
        session_id = admission.session_id
        if session_id not in self._asked:
            self._asked[session_id] = admission
            if self._stage.rng.random() < self._stage.scenario.cancel:
                delay_s = self._stage.rng.uniform(0.0, 0.5)
                self._stage.loop.after(delay_s, partial(self._cancel, session_id))
        self.coordinator.act(lambda: self.coordinator.admit(admission))

    def come_back(self) -> None:
        """The coordinator was restarted: it may know of a request, or is asked anew."""
        for session_id, admission in self._asked.items():
            is_known = session_id in self.coordinator.sessions
            if is_known and session_id in self.cancelled:
                self.coordinator.cancel(session_id)  # nobody came for it; kept for long enough
            elif not is_known and not self._is_served(session_id):
                self.ask(admission)

    def done(self, books: ClientSession) -> None:
        self.texts[books.admission.session_id] = books

    def refused(self, books: ClientSession, error: Exception) -> None:
        """Full: asked again in a moment. Poisoned: verifier after verifier was lost with it."""
        session_id = books.admission.session_id
        if isinstance(error, NoCapacity):
            self._stage.loop.after(RETRY_S, partial(self._ask_again, session_id))
            return
        assert isinstance(error, Poisoned), error
        self.poisoned.add(session_id)
        self.texts[session_id] = books

    def check_texts(self) -> None:
        """Every text equals plain decoding; one that was cut off is the beginning of it."""
        assert self._asked.keys() == {each.session_id for each in self._stage.scenario.admissions}
        for session_id, admission in self._asked.items():
            expected = self._stage.scenario.target.continue_text(
                admission.prompt_token_ids,
                max_len=admission.max_len,
                stop_token_ids=admission.stop_token_ids,
            )
            if session_id not in self.texts:
                assert session_id in self.cancelled, f"{session_id} never ended"
                continue
            books = self.texts[session_id]
            text = books.output_token_ids
            if session_id in self.poisoned | self.cancelled:
                expected = expected[: len(text)]
            else:
                assert books.is_finished, f"{session_id} never ended"
            assert text == expected, f"{session_id} says {text}, not {expected}"

    @property
    def are_served(self) -> bool:
        """Whether nobody waits for anything any more."""
        return len(self._asked) == len(self._stage.scenario.admissions) and all(
            map(self._is_served, self._asked)
        )

    def _is_served(self, session_id: SessionId) -> bool:
        return session_id in self.texts or session_id in self.cancelled

    def _ask_again(self, session_id: SessionId) -> None:
        if not self._is_served(session_id) and session_id not in self.coordinator.sessions:
            self.ask(self._asked[session_id])

    def _cancel(self, session_id: SessionId) -> None:
        if session_id not in self.texts:
            self.cancelled.add(session_id)
            self.coordinator.act(lambda: self.coordinator.cancel(session_id))
