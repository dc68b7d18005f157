"""Real processes are killed, stopped, starved and end by themselves while clients stream: every
token is the one of plain decoding, or the stream ends with a clear status; then all is well again.
"""

import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from subprocess import TimeoutExpired

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from ssd.chaos import Case, Fault, FaultKind, Streams, references
from ssd.chaos.streams import Outcome, ask
from ssd.client import Client, Options
from ssd.core.errors import SsdError
from ssd.core.mode import Mode
from tests.e2e.processes import Service, until
from tests.models.tiny_pair import write_tiny_pair

NUM_FAULTS = {"model": 6, "ngram": 2, "self": 2}
NUM_SOAKED = {"model": 220, "ngram": 40, "self": 40}
NUM_STREAMS = 3
NAMES = {"verifier": "verifier-0", "drafter": "drafter-0", "coordinator": "coordinator"}
SETTINGS: dict[str, dict[str, object]] = {
    "model": {},
    "ngram": {"speculation__drafters": "ngram", "ngram__place": "process", "ngram__shortest": 1},
    "self": {
        "speculation__drafters": "self",
        "models__draft_layers": 1,
        "models__draft": "null",
    },
}
"""Who drafts, in a process of its own."""
MODULES = {name: f"{role}_service" for role, name in NAMES.items() if role != "coordinator"}


class Supervised:
    """Three processes, and what a supervisor does for them."""

    def __init__(self, service: Service, drafters: str) -> None:
        self.drafters = drafters
        self._service = service
        service.start_all()
        self.cases = references(self.connect, _cases())

    @property
    def address(self) -> str:
        return self._service.address

    def connect(self) -> Client:
        return Client(self.address)

    def pid_of(self, role: str) -> int:
        return self._service.processes[NAMES[role]].popen.pid

    def strike(self, fault: Fault) -> None:
        """A process that is killed still looks alive for a moment; its end is waited for."""
        popen = self._service.processes[NAMES[fault.role]].popen
        fault.strike(popen.pid)
        if fault.kind is not FaultKind.STOP:
            with suppress(TimeoutExpired):  # want of memory need not end it
                popen.wait(10.0 if fault.kind in (FaultKind.KILL, FaultKind.ABORT) else 0.5)

    def stand_up(self) -> None:
        """Start again what has ended, until drafts flow."""
        until(self._is_whole, *self._service.processes.values())
        self._service.until_up(*MODULES)

    def _is_whole(self) -> bool:
        """Looked at again and again: a killed process ends a moment later."""
        service = self._service
        ended = [n for n, each in service.processes.items() if each.popen.poll() is not None]
        for name in ended:
            port = service.address.rpartition(":")[2]
            again = {"coordinator__port": port} if name == "coordinator" else {}
            service.start(MODULES.get(name, name), name=name, **again)
        if ended:
            return False
        with Client(self.address) as client:
            try:
                workers = client.status().workers
            except SsdError:
                return False
        pids = {each.worker.process_id for each in workers if each.is_up}
        return {self.pid_of("verifier"), self.pid_of("drafter")} <= pids

    def ask_until_served(self, case: Case) -> Outcome:
        """A worker that stands may not be attached yet; then the coordinator says Unavailable."""
        asked: list[Outcome] = []

        def is_served() -> bool:
            asked.append(ask(self.connect, case))
            is_out = asked[-1].status == "Unavailable"
            if is_out:
                self.stand_up()  # one that lacked memory may have ended since
            return not is_out

        until(is_served)
        return asked[-1]

    def until_idle(self) -> None:
        with Client(self.address) as client:
            until(lambda: not client.status().sessions)


def _cases() -> list[Case]:
    plain = Options(max_tokens=250, seed=3, ignore_eos=True, mode=Mode.SSD)
    return [
        Case(prompt, replace(plain, temperature=temperature))
        for temperature in (0.0, 1.0)
        for prompt in ("Once upon a time", "The other day")
    ]


@pytest.fixture(scope="module", params=SETTINGS)
def supervised(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Supervised]:
    folder = tmp_path_factory.mktemp("faults")
    pair = write_tiny_pair(folder)
    service = Service(folder, pair.target, pair.draft, defaults=SETTINGS[request.param])
    try:
        yield Supervised(service, request.param)
    finally:
        service.close()


def process_faults() -> st.SearchStrategy[tuple[Fault, float]]:
    """A fault, and how long after the streams began it strikes."""
    kinds = {"verifier": list(FaultKind), "drafter": list(FaultKind)}
    kinds["coordinator"] = [FaultKind.KILL, FaultKind.STOP]
    fault = st.sampled_from(sorted(kinds)).flatmap(
        lambda role: st.builds(
            Fault, st.sampled_from(kinds[role]), st.just(role), st.floats(0.2, 1.5)
        )
    )
    return st.tuples(fault, st.floats(0.0, 0.5))


def suffer(supervised: Supervised, fault: Fault, delay_s: float) -> None:
    supervised.stand_up()
    with Streams(supervised.connect, supervised.cases, NUM_STREAMS) as streams:
        time.sleep(delay_s)
        supervised.strike(fault)
        supervised.stand_up()
    assert not [each for each in streams.outcomes if each.is_wrong]
    statuses = {"OK", "Unavailable"}
    if fault.kind is FaultKind.MEMORY:  # a lone request cannot know that others would fail too
        statuses.add("SsdError")
    assert {each.status for each in streams.outcomes} <= statuses
    for case in supervised.cases[1:3]:
        assert supervised.ask_until_served(case).is_identical
    supervised.until_idle()


def _suffer_many(supervised: Supervised, amounts: dict[str, int], *, is_repeatable: bool) -> None:
    count = amounts[supervised.drafters]

    @settings(
        max_examples=count,
        deadline=None,
        derandomize=is_repeatable,
        database=None,
        phases=(Phase.generate,),  # a process takes seconds to come back: one failure is told as is
        suppress_health_check=list(HealthCheck),
    )
    @given(drawn=process_faults())
    def every_fault(drawn: tuple[Fault, float]) -> None:
        suffer(supervised, *drawn)

    every_fault()


@pytest.mark.timeout(300)
def test_process_faults_change_no_token(supervised: Supervised) -> None:
    _suffer_many(supervised, NUM_FAULTS, is_repeatable=True)


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_more_process_faults_change_no_token(supervised: Supervised) -> None:
    _suffer_many(supervised, NUM_SOAKED, is_repeatable=False)
