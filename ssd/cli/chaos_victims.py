"""The processes that `ssd chaos` breaks: the coordinator is ours to start again, the workers are
Ray's."""

from ssd.chaos import Connect, is_alive
from ssd.cli.serve import is_serving
from ssd.cluster.local_service import LocalService
from ssd.cluster.processes import wait_until
from ssd.config import SecuritySection
from ssd.core.errors import SsdError, Unavailable
from ssd.v1 import registry_pb2

_READY_S = 120.0
_ROLES = {"verifier": registry_pb2.ROLE_VERIFIER, "drafter": registry_pb2.ROLE_DRAFTER}


class LocalVictims:
    """`ssd.chaos.run.Victims` of a service on this machine."""

    def __init__(
        self, service: LocalService, connect: Connect, *, security: SecuritySection
    ) -> None:
        self.connect = connect
        self._service = service
        self._security = security

    def pid_of(self, role: str) -> int | None:
        """A process of the role, None while there is none."""
        if role == "coordinator":
            return self._service.launcher.child_named(role).pid
        workers = [each.worker for each in self._workers() if each.worker.role == _ROLES[role]]
        pids = [each.process_id for each in workers]
        return pids[0] if pids and is_alive(pids[0]) else None

    def stand_up(self) -> None:
        """Start the coordinator again if it ended, and return when all of it serves.

        Raises:
            Unavailable: it does not for two minutes.
        """
        if not wait_until(self._is_whole, _READY_S):
            raise Unavailable(f"the service does not stand again after {_READY_S:g} s")

    def _is_whole(self) -> bool:
        # Asked each time: one that lacks memory may end later.
        self._service.launcher.start_again("coordinator")
        num_workers = len(self._service.workers)
        address = self._service.address
        return is_serving(address, num_workers=num_workers, security=self._security) and all(
            each.is_up and is_alive(each.worker.process_id) for each in self._workers()
        )

    def _workers(self) -> list[registry_pb2.WorkerStatus]:
        """None while the coordinator is away."""
        try:
            with self.connect() as client:
                return list(client.status().workers)
        except SsdError:
            return []
