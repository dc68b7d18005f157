"""The three services in one process with a fault proxy on every way between two of them.

worker ──Register──▶ [registry] ──▶ coordinator ──Serve──▶ [serve] ──▶ verifier
                                    verifier ──Speculate──▶ [speculate] ──▶ drafter
"""

import asyncio
from dataclasses import dataclass, field
from typing import Any

from ssd.v1 import registry_pb2
from ssd.wire.hello import Capabilities, encode_hello
from ssd.wire.registration import keep_registered
from ssd.worker.host import Place, host_worker
from tests.faults.proxy import Fault, FaultProxy, Plan
from tests.services.cluster import Cluster, Hosted, Service, first_of, until

SERVE, SPECULATE, REGISTER = "serve", "speculate", "register"
EDGES = (SERVE, SPECULATE, REGISTER)


@dataclass(slots=True)
class FaultyCluster(Cluster):
    """A `Cluster` whose workers are known by the addresses of their proxies."""

    proxies: list[tuple[str, FaultProxy]] = field(default_factory=list)
    registering: list[asyncio.Task[None]] = field(default_factory=list)

    def play(self, faults: tuple[Fault, ...]) -> None:
        """From now on messages suffer this; they are counted from here."""
        for edge, proxy in self.proxies:
            proxy.plan = Plan([each for each in faults if each.edge == edge])

    @property
    def struck(self) -> list[Fault]:
        """The faults that really happened since `play`."""
        return [fault for _, proxy in self.proxies for fault in proxy.plan.struck]

    async def until_whole(self) -> None:
        """Wait until sessions can be placed and drafts can flow."""
        verifier, drafter = self.workers

        async def is_whole() -> bool:
            return await self._is_up("verifier-0", verifier) and await self._is_attached(drafter)

        await until(is_whole)

    async def close(self) -> None:
        self.play(())
        for task in self.registering:
            task.cancel()
        await asyncio.gather(*self.registering, return_exceptions=True)
        await Cluster.close(self)
        for _, proxy in self.proxies:
            await proxy.stop()

    async def _host(
        self, service: Service, me: Capabilities, name: str, role: registry_pb2.Role
    ) -> Hosted:
        place = Place(name, role, "127.0.0.1", 0, "here", name, None, coordinators=())
        check_every_event(service)
        stopping = asyncio.Event()
        address: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        run = host_worker(service, place, me, stop=stopping, ready=address.set_result)
        task = asyncio.create_task(run)
        edge = SERVE if role == registry_pb2.ROLE_VERIFIER else SPECULATE
        known_as = await self._proxy(edge, await first_of(address, task))
        registry = await self._proxy(REGISTER, self.address)
        card = registry_pb2.Worker(
            name=name, role=role, address=known_as, hello=encode_hello(me), node="here", device=name
        )
        keeping = keep_registered(card, [registry], report=lambda address, words: None)
        self.registering.append(asyncio.create_task(keeping))
        hosted = Hosted(service, me, known_as, task, stopping)
        self.workers.append(hosted)
        return hosted

    async def _proxy(self, edge: str, upstream: str) -> str:
        proxy = FaultProxy(upstream)
        await proxy.start()
        self.proxies.append((edge, proxy))
        return proxy.address


def check_every_event(service: Service) -> None:
    """The invariants hold after every step, and after every event between two of them.

    While a forward runs its rows are in use, and what holds at a boundary need not.
    """
    machine, engine = service.machine, service.engine
    take = engine._take

    def checked_take(outputs: list[Any]) -> None:
        if getattr(machine, "_done", None) is None:
            machine.core.check()
        take(outputs)

    engine._take = checked_take  # type: ignore[method-assign]
