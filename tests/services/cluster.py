"""The three services in one process and one event loop, over real gRPC on this machine."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import grpc
import grpc.aio
import pytest

from coordinator.service import run_coordinator
from drafter_service.ngram_service import NgramService
from drafter_service.service import DrafterService
from ssd.config import SsdConfig
from ssd.core.drafter import Drafter
from ssd.core.drafter_kind import TRAITS, DrafterKind
from ssd.core.verifier import Verifier
from ssd.engine.loading import LoadedModel
from ssd.v1 import (
    common_pb2,
    generation_pb2,
    generation_pb2_grpc,
    registry_pb2,
    registry_pb2_grpc,
)
from ssd.wire.channels import open_channel
from ssd.wire.codec import MODES
from ssd.wire.hello import Capabilities
from ssd.wire.sampling_codec import RULES
from ssd.wire.security import Security
from ssd.worker.host import Place, host_worker, metrics_place
from ssd.worker.model import capabilities_of
from verifier_service.service import VerifierService

PATIENCE_S = 60.0  # nothing here is about speed, and the machine may be busy
SETTINGS: dict[str, dict[str, Any]] = {
    "coordinator": {"port": 0},
    "timeouts": {"heartbeat_s": 0.1, "peer_dead_s": 10.0, "drain_s": 0.2},
}

Answer = TypeVar("Answer")
Service = VerifierService | DrafterService | NgramService


@dataclass(frozen=True, slots=True)
class Reply:
    """A generation read to its end."""

    token_ids: tuple[int, ...]
    pieces: tuple[str, ...]
    complete: generation_pb2.Complete

    @property
    def num_tokens(self) -> int:
        """What the server says that it delivered."""
        return self.complete.usage.completion_tokens

    @property
    def text(self) -> str:
        return "".join(self.pieces)

    @property
    def acceptance(self) -> float:
        return self.complete.figures.acceptance

    @property
    def num_accepted(self) -> int:
        return self.complete.figures.num_accepted


@dataclass(slots=True)
class Hosted:
    """A worker that serves, as `host_worker` runs it."""

    service: Service
    me: Capabilities
    address: str
    task: asyncio.Task[None]
    stopping: asyncio.Event

    @property
    def verifier(self) -> Verifier:
        """The core of a verifier."""
        core = self.service.machine.core
        assert isinstance(core, Verifier)
        return core

    @property
    def drafter(self) -> Drafter:
        """The core of a drafter."""
        core = self.service.machine.core
        assert isinstance(core, Drafter)
        return core

    async def stop(self) -> None:
        """Leave as at SIGTERM."""
        self.stopping.set()
        await self.task

    async def ask(self, question: Callable[[], Answer]) -> Answer:
        """Answer a question about the core on the thread that owns it."""
        future: Future[Answer] = Future()

        def event() -> list[Any]:
            try:
                future.set_result(question())
            except BaseException as error:
                future.set_exception(error)
            return []

        self.service.engine.post(event)
        return await asyncio.wrap_future(future)

    async def num_reserved_slots(self) -> int:
        """KV slots in use by sessions."""
        core = self.service.machine.core
        return await self.ask(lambda: core.num_reserved_slots)


@dataclass(slots=True)
class Cluster:
    """A coordinator and any number of workers, started and stopped one by one."""

    address: str = ""
    workers: list[Hosted] = field(default_factory=list)
    deaths: list[BaseException] = field(default_factory=list)
    _config: SsdConfig = field(default_factory=SsdConfig)
    _stopping: asyncio.Event = field(default_factory=asyncio.Event)
    _tasks: list[asyncio.Task[None]] = field(default_factory=list)
    _channel: grpc.aio.Channel | None = None
    _loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)

    # ── processes ─────────────────────────────────────────────────────────────────────────────

    async def coordinate(self, **sections: dict[str, Any]) -> None:
        """Start the coordinator; `sections` go before `SETTINGS`."""
        merged = {
            name: SETTINGS.get(name, {}) | sections.get(name, {})
            for name in SETTINGS.keys() | sections.keys()
        }
        self._config = SsdConfig.model_validate(merged)
        loop = asyncio.get_running_loop()
        address: asyncio.Future[str] = loop.create_future()
        run = run_coordinator(self._config, stop=self._stopping, ready=address.set_result)
        self._tasks.append(asyncio.create_task(run))
        self.address = await first_of(address, self._tasks[-1])
        self._channel = open_channel(self.address, Security.of(self._config.security))

    async def restart_coordinator(self, **sections: dict[str, Any]) -> None:
        """Stop the coordinator and start another at its address."""
        port = int(self.address.rpartition(":")[2])
        assert self._channel is not None
        self._stopping.set()
        await asyncio.gather(*self._tasks)
        await self._channel.close()
        self._tasks.clear()
        self._stopping = asyncio.Event()
        coordinator = sections.get("coordinator", {}) | {"port": port}
        await self.coordinate(**(sections | {"coordinator": coordinator}))

    async def verify(self, target: LoadedModel, *, name: str = "verifier-0") -> Hosted:
        """Start a verifier and wait until sessions can be placed on it."""
        me = capabilities_of(target, dtype=target.fingerprint.dtype)
        service = VerifierService(self._config, target, me, core=None)
        hosted = await self._host(service, me, name, registry_pb2.ROLE_VERIFIER)
        await until(lambda: self._is_up(name, hosted))
        return hosted

    async def draft(
        self,
        draft: LoadedModel,
        *,
        name: str = "drafter-0",
        is_used: bool = True,
        kind: DrafterKind = DrafterKind.MODEL,
    ) -> Hosted:
        """Start a drafter and wait until a verifier attached to it, or else until it registered."""
        me = replace(capabilities_of(draft, dtype=draft.fingerprint.dtype), drafter=TRAITS[kind])
        service = DrafterService(self._config, draft, me, core=None)
        hosted = await self._host(service, me, name, registry_pb2.ROLE_DRAFTER)
        await until(
            (lambda: self._is_attached(hosted)) if is_used else lambda: self._is_known(name)
        )
        return hosted

    async def draft_ngrams(self, target: LoadedModel, *, name: str = "ngram-0") -> Hosted:
        """Start an n-gram drafter and wait until a verifier attached to it."""
        me = replace(
            capabilities_of(target, dtype=""), model_name="ngram", drafter=TRAITS[DrafterKind.NGRAM]
        )
        service = NgramService(self._config, me)
        hosted = await self._host(service, me, name, registry_pb2.ROLE_DRAFTER)
        await until(lambda: self._is_attached(hosted))
        return hosted

    async def pair(self, target: LoadedModel, draft: LoadedModel) -> tuple[Hosted, Hosted]:
        """The usual cluster: one verifier, one drafter."""
        if not self.address:
            await self.coordinate()
        return await self.verify(target), await self.draft(draft)

    async def stop(self, worker: Hosted) -> None:
        self.workers.remove(worker)
        await worker.stop()

    def engine_died(self, error: BaseException) -> None:
        """Called on the engine's thread: no client shall wait for an answer any more."""
        self.deaths.append(error)
        self._loop.call_soon_threadsafe(self._hang_up)

    def _hang_up(self) -> None:
        if self._channel is not None:
            self._tasks.append(asyncio.create_task(self._channel.close()))

    async def close(self) -> None:
        """Stop what runs, workers first."""
        for worker in list(self.workers):
            await self.stop(worker)
        if self._channel is not None:
            await self._channel.close()
        self._stopping.set()
        await asyncio.gather(*self._tasks)

    # ── clients ───────────────────────────────────────────────────────────────────────────────

    def call(self, prompt: str | Sequence[int], **fields: Any) -> Any:
        """A generation in progress; `mode` and `rule` are words, the rest as in the protocol."""
        assert self._channel is not None
        stub = generation_pb2_grpc.GenerationServiceStub(self._channel)
        return stub.Generate(request_of(prompt, **fields), timeout=PATIENCE_S)

    async def generate(self, prompt: str | Sequence[int], **fields: Any) -> Reply:
        """A generation read to its end."""
        reply = await read(self.call(prompt, **fields))
        assert reply.num_tokens == len(reply.token_ids)
        return reply

    async def cancel(self, request_id: str) -> None:
        assert self._channel is not None
        stub = generation_pb2_grpc.GenerationServiceStub(self._channel)
        await stub.Cancel(generation_pb2.CancelRequest(request_id=request_id))

    async def status(self) -> registry_pb2.GetStatusResponse:
        assert self._channel is not None
        stub = registry_pb2_grpc.RegistryServiceStub(self._channel)
        response: registry_pb2.GetStatusResponse = await stub.GetStatus(
            registry_pb2.GetStatusRequest()
        )
        return response

    async def worker_status(self, name: str) -> registry_pb2.WorkerStatus:
        workers = (await self.status()).workers
        return next(each for each in workers if each.worker.name == name)

    @property
    def channel(self) -> grpc.aio.Channel:
        assert self._channel is not None
        return self._channel

    # ── invariants ────────────────────────────────────────────────────────────────────────────

    async def until_freed(self) -> None:
        """Wait until no worker holds KV for any session."""

        async def is_freed() -> bool:
            return not any([await worker.num_reserved_slots() for worker in self.workers])

        await until(is_freed)

    # ── inside ────────────────────────────────────────────────────────────────────────────────

    async def _host(
        self, service: Service, me: Capabilities, name: str, role: registry_pb2.Role
    ) -> Hosted:
        place = Place(
            name=name,
            role=role,
            host="127.0.0.1",
            port=0,
            node="here",
            device=name,
            core=None,
            drain_s=self._config.timeouts.drain_s,
            coordinators=(self.address,),
            security=Security.of(self._config.security),
        )
        check_every_round(service)
        stopping = asyncio.Event()
        address: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        run = host_worker(
            service,
            place,
            me,
            stop=stopping,
            ready=address.set_result,
            metrics=metrics_place(0, self._config),
        )
        task = asyncio.create_task(run)
        hosted = Hosted(service, me, await first_of(address, task), task, stopping)
        self.workers.append(hosted)
        return hosted

    async def _is_up(self, name: str, hosted: Hosted) -> bool:
        return any(
            each.worker.name == name and each.worker.address == hosted.address and each.is_up
            for each in (await self.status()).workers
        )

    async def _is_known(self, name: str) -> bool:
        return any(each.worker.name == name for each in (await self.status()).workers)

    async def _is_attached(self, drafter: Hosted) -> bool:
        verifiers = [each for each in self.workers if isinstance(each.service, VerifierService)]
        return any(drafter.address in each.verifier.drafters for each in verifiers)


def check_every_round(service: Service) -> None:
    """G1: the invariants hold after every round; one that does not is the engine's death."""
    machine, settle = service.machine, service.machine.settle

    def checked_settle() -> list[Any]:
        outputs = settle()
        machine.core.check()
        return list(outputs)

    machine.settle = checked_settle  # type: ignore[method-assign]


def request_of(prompt: str | Sequence[int], **fields: Any) -> generation_pb2.GenerateRequest:
    if isinstance(fields.get("mode"), str):
        fields["mode"] = MODES[fields["mode"]]
    if isinstance(fields.get("rule"), str):
        fields["rule"] = RULES[fields["rule"]]
    if isinstance(prompt, str):
        return generation_pb2.GenerateRequest(text=prompt, **fields)
    token_ids = generation_pb2.TokenIds(token_ids=prompt)
    return generation_pb2.GenerateRequest(token_ids=token_ids, **fields)


async def read(call: Any) -> Reply:
    """Read what is left of a generation."""
    token_ids: list[int] = []
    pieces: list[str] = []
    complete = None
    async for response in call:
        assert complete is None, "something came after the complete message"
        if response.HasField("complete"):
            complete = response.complete
        else:
            token_ids += response.delta.token_ids
            pieces.append(response.delta.text)
    assert complete is not None, "the stream ended without a complete message"
    return Reply(tuple(token_ids), tuple(pieces), complete)


async def read_some(call: Any, num_tokens: int) -> tuple[int, ...]:
    """The first tokens of a generation, `num_tokens` or a few more."""
    token_ids: list[int] = []
    while len(token_ids) < num_tokens:
        response = await call.read()
        assert response is not grpc.aio.EOF, "the generation ended early"
        assert response.HasField("delta"), "the generation ended early"
        token_ids += response.delta.token_ids
    return tuple(token_ids)


async def read_rest(call: Any) -> Reply:
    """What follows after `read_some`."""

    async def responses() -> AsyncIterator[generation_pb2.GenerateResponse]:
        while (response := await call.read()) is not grpc.aio.EOF:
            yield response
        if await call.code() is not grpc.StatusCode.OK:
            empty = grpc.aio.Metadata()
            raise grpc.aio.AioRpcError(
                await call.code(), empty, empty, details=await call.details()
            )

    return await read(responses())


async def until(holds: Callable[[], Any]) -> None:
    """Wait for an asynchronous condition."""
    async with asyncio.timeout(PATIENCE_S):
        while not await holds():  # noqa: ASYNC110 (what is waited for happens in other processes)
            await asyncio.sleep(0.01)


async def refusal_of(reading: Awaitable[Any]) -> tuple[grpc.StatusCode, str]:
    """The status of a call that must fail."""
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await reading
    return refused.value.code(), refused.value.details() or ""


def mode_of(reply: Reply) -> str:
    return common_pb2.Mode.Name(reply.complete.mode).removeprefix("MODE_").lower()


async def first_of(address: asyncio.Future[str], task: asyncio.Task[None]) -> str:
    """The address, or what kept the task from serving."""
    either: set[asyncio.Future[Any]] = {address, task}
    await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
    if not address.done():
        await task
        raise AssertionError("it ended before it served")
    return address.result()
