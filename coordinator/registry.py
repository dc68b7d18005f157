"""Which workers exist: those that registered and whose lease runs.

Registering again is how a worker stays, how a restarted one comes back under its name with a new
address, and how a restarted coordinator learns of workers that never stopped.
"""

import asyncio
from dataclasses import dataclass

import structlog

from coordinator.flight_records import ask_worker
from coordinator.session_table import SessionTable
from coordinator.verifier_link import VerifierLink
from ssd.core.errors import SessionConflict, UnknownSession
from ssd.v1 import registry_pb2
from ssd.wire.dialed_stream import StreamTimeouts
from ssd.wire.hello import check_version, decode_hello, why_not_a_pair

LEASE_S = 3.0
_RENEWS_WITHIN_S = LEASE_S / 2  # a live worker renews after a third
log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class _Entry:
    worker: registry_pb2.Worker
    expires_at: float


class Registry:
    """Keeps one link per registered verifier and tells each which drafters there are."""

    def __init__(
        self, table: SessionTable, timeouts: StreamTimeouts, *, coordinator_id: str
    ) -> None:
        self.links: dict[str, VerifierLink] = {}
        self.metrics_address = ""
        self._table = table
        self._timeouts = timeouts
        self._coordinator_id = coordinator_id
        self._entries: dict[str, _Entry] = {}
        self._draining: set[str] = set()  # processes

    async def register(self, worker: registry_pb2.Worker) -> None:
        """Take a worker in, or renew its lease.

        Raises:
            ProtocolError: it speaks another version of the protocol.
        """
        check_version(worker.hello)
        known = self._entries.get(worker.name)
        if known is not None and known.worker.hello.instance_id != worker.hello.instance_id:
            self._expect_dead(known)
        expires_at = asyncio.get_running_loop().time() + LEASE_S
        if not worker.is_leaving:
            self._entries[worker.name] = _Entry(worker, expires_at)
        if worker.is_leaving:
            if known is not None:
                self.drain(worker.name, undo=False)
            return
        if known is None or known.worker != worker:
            log.info("worker registered", worker=worker.name, address=worker.address)
            await self._apply()

    def _expect_dead(self, known: _Entry) -> None:
        """Two live workers of one name would take each other's place for ever.

        Raises:
            SessionConflict: the one that has the name is alive.
        """
        link = self.links.get(known.worker.name)
        renewed_s = LEASE_S - (known.expires_at - asyncio.get_running_loop().time())
        is_alive = link.is_attached if link is not None else renewed_s < _RENEWS_WITHIN_S
        if is_alive and known.worker.address:
            raise SessionConflict(
                f"the name {known.worker.name} is taken by a live worker at "
                f"{known.worker.address}, process {known.worker.process_id}: give one of them "
                "another name"
            )

    def drain(self, name: str, *, undo: bool) -> int:
        """Take a worker out of use, or put it back; sessions that stay there for want of another.

        It lasts as long as the worker's process does.

        Raises:
            UnknownSession: no such worker is registered.
        """
        entry = self._entries.get(name)
        if entry is None:
            known = ", ".join(sorted(self._entries)) or "none"
            raise UnknownSession(f"no worker {name} is registered here, only: {known}")
        instance_id = entry.worker.hello.instance_id
        (self._draining.discard if undo else self._draining.add)(instance_id)
        log.info("worker drains" if not undo else "worker is back in use", worker=name)
        self._assign_all()
        link = self.links.get(name)
        return 0 if link is None else self._table.seating.drain(link, is_draining=not undo)

    async def expire(self) -> None:
        """Drop workers whose lease ended; runs until cancelled."""
        while True:
            await asyncio.sleep(LEASE_S / 4)
            now = asyncio.get_running_loop().time()
            late = [name for name, entry in self._entries.items() if entry.expires_at < now]
            for name in late:
                log.warning("worker lease ended", worker=name)
                del self._entries[name]
            if late:
                await self._apply()

    async def close(self) -> None:
        self._entries.clear()
        await self._apply()

    def workers(self) -> list[registry_pb2.Worker]:
        """Every registered worker; may be called from any thread."""
        return [entry.worker for entry in list(self._entries.values())]

    def statuses(self) -> list[registry_pb2.WorkerStatus]:
        """Every registered worker and whether it is of use."""
        return [self._status(entry.worker) for entry in self._entries.values()]

    async def records_of(
        self, request_id: str, *, has_owner: bool, with_tokens: bool
    ) -> list[bytes]:
        """The flight records of a request's sessions, of all workers that answer."""
        asked = [
            ask_worker(
                worker,
                self._timeouts.security,
                request_id,
                has_owner=has_owner,
                with_tokens=with_tokens,
            )
            for worker in self.workers()
        ]
        return [record for records in await asyncio.gather(*asked) for record in records]

    async def _apply(self) -> None:
        """Bring the links in line with the entries."""
        verifiers = {
            name: entry.worker
            for name, entry in self._entries.items()
            if entry.worker.role == registry_pb2.ROLE_VERIFIER
        }
        names = [name for name, link in self.links.items() if verifiers.get(name) != link.worker]
        gone = [self.links.pop(name) for name in names]
        closing = [link.close() for link in gone]
        for name in verifiers.keys() - self.links.keys():
            self.links[name] = VerifierLink(
                verifiers[name],
                self._table,
                self._timeouts,
                coordinator_id=self._coordinator_id,
            )
        self._assign_all()
        await asyncio.gather(*closing)
        standing = {link.instance_id for link in self.links.values()}
        for link in gone:
            if link.instance_id not in standing:
                self._table.seating.process_lost(link.instance_id)

    def _assign_all(self) -> None:
        for name, link in self.links.items():
            link.assign_drafters(self._drafters_for(self._entries[name].worker))

    def _drafters_for(self, verifier: registry_pb2.Worker) -> list[str]:
        target = decode_hello(verifier.hello)
        return [
            entry.worker.address
            for entry in self._entries.values()
            if entry.worker.role == registry_pb2.ROLE_DRAFTER
            and entry.worker.hello.instance_id not in self._draining
            and why_not_a_pair(decode_hello(entry.worker.hello), target) is None
        ]

    def _status(self, worker: registry_pb2.Worker) -> registry_pb2.WorkerStatus:
        link = self.links.get(worker.name)
        if link is not None:
            reason = link.reason or ("draining" if link.is_draining else "")
            sample = link.stream.best_clock_sample
            return registry_pb2.WorkerStatus(
                worker=worker,
                is_up=link.is_attached and not link.is_draining,
                reason=reason,
                num_steps=link.stream.peer_steps,
                round_trip_ns=0 if sample is None else sample.round_trip_ns,
                clock_offset_ns=0 if sample is None else sample.offset_ns,
            )
        reason = self._why_unused(worker)
        return registry_pb2.WorkerStatus(worker=worker, is_up=not reason, reason=reason)

    def _why_unused(self, drafter: registry_pb2.Worker) -> str:
        """Why no verifier uses a drafter, empty if one does."""
        if drafter.hello.instance_id in self._draining:
            return "draining"
        targets = [
            decode_hello(entry.worker.hello)
            for entry in self._entries.values()
            if entry.worker.role == registry_pb2.ROLE_VERIFIER
        ]
        if not targets:
            return "no verifier is registered"
        reasons = [why_not_a_pair(decode_hello(drafter.hello), target) for target in targets]
        return "" if None in reasons else str(reasons[0])
