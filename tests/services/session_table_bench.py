"""A session table with seats that remember what they were told."""

from collections.abc import Iterable

from coordinator.live_session import LiveSession
from coordinator.session_table import SessionTable, TableLimits
from ssd.core.client_session import Admission
from ssd.core.credit import Credit
from ssd.core.ids import Epoch, SessionId
from ssd.core.keys import key_of
from ssd.core.ledger import Ledger, LedgerEntry
from ssd.core.messages import Close, Commit, Open, Refused, Resume
from ssd.core.mode import Mode
from ssd.core.sampling_params import SamplingParams
from ssd.wire.hello import Capabilities

PROMPT = (1, 2, 3)
MODEL = Capabilities("i", "model", "kind", "a", "b", 257, 512, (), "fp64")


class Seat:
    """A verifier that only remembers its orders."""

    def __init__(self, name: str, fingerprint: str = "kind") -> None:
        self.name, self.fingerprint = name, fingerprint
        self.instance_id = f"life of {name}"
        self.is_draining = False
        self.num_pings = 0
        self.credit: Credit | None = None
        self.orders: list[Open | Resume | Close] = []

    def send(self, orders: Iterable[Open | Resume | Close]) -> None:
        self.orders += orders

    @property
    def kinds(self) -> list[str]:
        return [type(order).__name__ for order in self.orders]


def make_table(
    *,
    max_sessions: int = 4,
    max_queue: int = 4,
    reopen_s: float = 30.0,
    resume_s: float = 0.0,
    epoch_floor: int = 0,
) -> SessionTable:
    limits = TableLimits(max_sessions, max_queue, reopen_s, resume_s, keep_s=60.0)
    return SessionTable(limits, epoch_floor=epoch_floor)


def admission(name: str = "a", *, max_len: int = 10, priority: int = 0) -> Admission:
    return Admission(
        session_id=SessionId(name),
        prompt_token_ids=PROMPT,
        max_len=max_len,
        params=SamplingParams(),
        stop_token_ids=frozenset(),
        mode=Mode.SSD,
        priority=priority,
    )


def commit(live: LiveSession, *token_ids: int) -> Commit:
    """What the verifier says next."""
    books = live.books
    text = (*PROMPT, *books.output_token_ids)
    return Commit(SessionId("a"), books.epoch, len(text), key_of(text), token_ids)


def refusal(live: LiveSession, kind: str = "NoCapacity") -> Refused:
    return Refused(SessionId("a"), live.books.epoch, kind, "no")


def ledger(live: LiveSession, number: int, *text: int, epoch: int | None = None) -> Ledger:
    """What a verifier says it holds of session a; nothing without a text."""
    whole = (*PROMPT, *text)
    entry = LedgerEntry(
        SessionId("a"),
        live.books.epoch if epoch is None else Epoch(epoch),
        len(whole),
        key_of(whole),
        len(whole) - 1,
        1,
    )
    return Ledger(number, (entry,) if text else ())


def here(table: SessionTable, seat: Seat) -> list[str]:
    """Sessions on a seat that have no token yet."""
    return [
        str(name)
        for name, live in table.sessions.items()
        if live.seat is seat and not live.books.output_len and live.error is None
    ]
