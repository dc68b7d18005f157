"""Clients that generate all the time, and compare every token with what it should be."""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import cycle

from ssd.client import Client, Options
from ssd.core.errors import SsdError
from ssd.core.mode import Mode

_RETRY_S = 0.2
Connect = Callable[[], Client]
"""A new client of the coordinator under test."""


@dataclass(frozen=True, slots=True)
class Case:
    """A request, and the text that plain decoding gives it."""

    prompt: str
    options: Options
    expected: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one request went. `status` is OK or the error's name, `words` what the error said;
    `gap_s` the longest silence."""

    case: Case
    token_ids: tuple[int, ...]
    status: str
    gap_s: float
    words: str = ""

    @property
    def is_identical(self) -> bool:
        return self.status == "OK" and self.token_ids == self.case.expected

    @property
    def is_wrong(self) -> bool:
        """Some token is not the expected one, or the end came without a word before the end."""
        begun = self.case.expected[: len(self.token_ids)]
        return self.token_ids != begun or (self.status == "OK" and not self.is_identical)


def references(connect: Connect, cases: Sequence[Case]) -> tuple[Case, ...]:
    """The cases with their texts, made by plain decoding while all is well."""
    found = []
    with connect() as client:
        for case in cases:
            plain = replace(case.options, mode=Mode.AR)
            pieces = list(client.generate(case.prompt, plain))
            expected = tuple(token_id for piece in pieces for token_id in piece.token_ids)
            found.append(replace(case, expected=expected))
    return tuple(found)


def ask(connect: Connect, case: Case) -> Outcome:
    """One request, read to whatever end it has."""
    token_ids: list[int] = []
    gap_s, last = 0.0, None
    status, words = "OK", ""
    with connect() as client:
        try:
            for piece in client.generate(case.prompt, case.options):
                now = time.monotonic()
                gap_s, last = max(gap_s, now - (last or now)), now
                token_ids += piece.token_ids
        except SsdError as error:
            status, words = type(error).__name__, str(error)
    return Outcome(case, tuple(token_ids), status, gap_s, words)


class Streams:
    """`num_streams` clients in threads, each going through the cases until `stop`."""

    def __init__(self, connect: Connect, cases: Sequence[Case], num_streams: int) -> None:
        self.outcomes: list[Outcome] = []
        self._connect = connect
        self._is_stopping = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, args=((*cases[index:], *cases[:index]),))
            for index in (number % len(cases) for number in range(num_streams))
        ]

    def __enter__(self) -> "Streams":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        """Let what runs come to its end."""
        self._is_stopping.set()
        for thread in self._threads:
            thread.join()

    def _run(self, cases: Sequence[Case]) -> None:
        for case in cycle(cases):
            if self._is_stopping.is_set():
                return
            outcome = ask(self._connect, case)
            self.outcomes.append(outcome)
            if outcome.status != "OK":
                self._is_stopping.wait(_RETRY_S)
