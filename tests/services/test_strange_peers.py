"""H2, H10: what makes no sense is dropped and counted, a peer that does not fit is told why."""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from typing import Any

import grpc
import grpc.aio
import pytest

from drafter_service.service import DrafterService
from ssd.core.keys import key_of
from ssd.engine.loading import LoadedModel
from ssd.v1 import (
    common_pb2,
    drafter_pb2,
    drafter_pb2_grpc,
    registry_pb2,
    registry_pb2_grpc,
    verifier_pb2,
    verifier_pb2_grpc,
)
from ssd.wire.channels import open_channel
from ssd.wire.hello import PROTOCOL_VERSION, encode_hello
from tests.models.scripted_model import ScriptedModel
from tests.services.cluster import Cluster, Hosted, refusal_of, until
from verifier_service.service import VerifierService

PROMPT = (1, 2, 3)
Order = verifier_pb2.VerifierOrder
DraftOrder = drafter_pb2.DrafterOrder
SAMPLING = common_pb2.Sampling(temperature=0.0, top_p=1.0)


def opening(session_id: str, **fields: Any) -> common_pb2.Open:
    values: dict[str, Any] = {
        "session_id": session_id,
        "epoch": 1,
        "token_ids": PROMPT,
        "prompt_len": 3,
        "max_len": 20,
        "sampling": SAMPLING,
        "mode": common_pb2.MODE_SSD,
    }
    return common_pb2.Open(**(values | fields))


@pytest.fixture
async def pair(
    cluster: Cluster, table_target: LoadedModel, table_draft: LoadedModel
) -> tuple[Hosted, Hosted]:
    return await cluster.pair(table_target, table_draft)


async def still_serves(cluster: Cluster, script: ScriptedModel) -> None:
    reply = await cluster.generate(PROMPT, temperature=0.0, max_tokens=20, mode="sd")
    assert reply.token_ids == script.continue_text(PROMPT, max_len=23)
    assert reply.complete.figures.num_proposed > 0, "the drafter still works"
    await cluster.until_freed()


async def test_strange_orders_do_not_disturb_a_verifier(
    cluster: Cluster, script: ScriptedModel, pair: tuple[Hosted, Hosted]
) -> None:
    verifier = pair[0]
    bad_sampling = common_pb2.Sampling(temperature=float("nan"), top_p=1.0)
    orders = [
        Order(),  # a kind of a later version
        Order(close=common_pb2.Close(session_id="\x00garbage", epoch=9)),
        Order(open=opening("mode", mode=99)),
        Order(open=opening("sampling", sampling=bad_sampling)),
        Order(open=opening("no sampling", sampling=common_pb2.Sampling())),
        Order(open=opening("empty", token_ids=[])),
        Order(open=opening("too long", max_len=100_000)),
        Order(open=opening("no room", max_len=3)),
        Order(open=opening("vocabulary", token_ids=[1, 4_000_000_000])),
        Order(open=opening("stop", stop_token_ids=[4_000_000_000])),
        Order(open=opening("repeated")),
        Order(open=opening("repeated")),
        Order(open=opening("stale")),
        Order(open=opening("stale", epoch=0)),
        Order(ping=common_pb2.Ping(number=7)),
    ]
    reports = await serve(
        verifier.address,
        orders,
        enough=lambda seen: "pong" in kinds(seen) and "stale" in refusals(seen),
    )
    refused = refusals(reports)
    unreadable = {"mode", "sampling", "no sampling"}
    assert refused.keys() == {"empty", "too long", "no room", "vocabulary", "stale", *unreadable}
    assert "4000000000" in refused["vocabulary"]
    assert isinstance(verifier.service, VerifierService)
    assert verifier.service.servicer.num_dropped == 3
    await still_serves(cluster, script)


async def test_strange_orders_do_not_disturb_a_drafter(
    cluster: Cluster, script: ScriptedModel, pair: tuple[Hosted, Hosted]
) -> None:
    drafter = pair[1]
    narrow = encode_hello(drafter.me)
    narrow.vocab_size = 0  # all ids mean nothing to this one, and something to the others
    uneven = common_pb2.GrowthSpans(steps=[1, 2], base_lens=[1])
    unknown_lookup = common_pb2.RoundRecord(lookup=77)  # type: ignore[arg-type]
    orders = [
        DraftOrder(),
        DraftOrder(hello=narrow),
        DraftOrder(close=common_pb2.Close(session_id="nobody", epoch=9)),
        DraftOrder(open=opening("mode", mode=99)),
        DraftOrder(open=opening("empty", token_ids=[])),
        DraftOrder(open=opening("no room", max_len=3)),
        DraftOrder(open=opening("far", max_len=2**32 - 1)),
        DraftOrder(open=opening("vocabulary", token_ids=[1, 4_000_000_000])),
        DraftOrder(commit=commit("nobody")),
        DraftOrder(open=opening("uneven")),
        DraftOrder(commit=commit("uneven", growth=uneven)),
        DraftOrder(commit=commit("uneven", record=unknown_lookup)),
        DraftOrder(open=opening("gap")),
        DraftOrder(commit=commit("gap", base_len=9)),
        DraftOrder(open=opening("other text")),
        DraftOrder(commit=commit("other text", base_key=12345)),
        DraftOrder(open=opening("commit")),
        DraftOrder(commit=commit("commit", token_ids=[4_000_000_000])),
        DraftOrder(open=opening("past the end", max_len=5)),
        DraftOrder(commit=commit("past the end", token_ids=[1] * 50)),
        DraftOrder(rates=drafter_pb2.Rates(tests=[1.0], matches=[])),
        DraftOrder(ping=common_pb2.Ping(number=7)),
        DraftOrder(open=opening("last")),
    ]
    reports = await speculate(
        drafter.address, orders, enough=lambda seen: "last" in grown(seen) and "pong" in kinds(seen)
    )
    refused = refusals(reports).keys()
    needed = {each.need.session_id: each.need.from_len for each in reports if each.HasField("need")}
    assert {"empty", "vocabulary", "commit"} <= refused
    assert needed == {"gap": 3, "other text": 0}
    assert isinstance(drafter.service, DrafterService)
    assert drafter.service.servicer.num_dropped == 3
    await still_serves(cluster, script)


async def test_strange_reports_do_not_disturb_a_verifier(
    cluster: Cluster, script: ScriptedModel, table_target: LoadedModel
) -> None:
    """A drafter that answers every order with nonsense."""
    await cluster.coordinate()
    verifier = await cluster.verify(table_target)
    card = registry_pb2.Worker(
        name="drafter-0", role=registry_pb2.ROLE_DRAFTER, hello=encode_hello(verifier.me)
    )
    async with grpc_server() as server:
        babbler = Babbler(card.hello)
        drafter_pb2_grpc.add_DrafterServiceServicer_to_server(babbler, server)
        card.address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
        await server.start()
        await register(cluster, card)

        async def is_attached() -> bool:
            return bool(verifier.verifier.drafters)

        await until(is_attached)
        for mode in ("ssd", "sd"):
            reply = await cluster.generate(PROMPT, temperature=0.0, mode=mode, max_tokens=60)
            assert reply.token_ids == script.continue_text(PROMPT, max_len=63)
        assert babbler.num_told > 0
        assert verifier.verifier.num_stale > 0
        assert not cluster.deaths
        await cluster.until_freed()


@pytest.mark.parametrize("service", ["verifier", "drafter"])
async def test_a_peer_of_another_version_is_refused_with_words(
    pair: tuple[Hosted, Hosted], service: str
) -> None:
    hello = common_pb2.Hello(protocol_version=PROTOCOL_VERSION + 1)
    reading: Awaitable[Any]
    if service == "verifier":
        reading = serve(pair[0].address, [Order(hello=hello)], enough=lambda seen: False)
    else:
        reading = speculate(pair[1].address, [DraftOrder(hello=hello)], enough=lambda seen: False)
    code, details = await refusal_of(reading)
    assert code is grpc.StatusCode.INTERNAL
    assert f"version {PROTOCOL_VERSION + 1}" in details


async def test_a_worker_of_another_version_cannot_register(cluster: Cluster) -> None:
    await cluster.coordinate()
    hello = common_pb2.Hello(protocol_version=PROTOCOL_VERSION + 1)
    worker = registry_pb2.Worker(name="new", role=registry_pb2.ROLE_VERIFIER, hello=hello)
    _, details = await refusal_of(register(cluster, worker))
    assert f"version {PROTOCOL_VERSION + 1}" in details
    assert not (await cluster.status()).workers


async def test_a_verifier_answering_in_anothers_place_is_not_used(
    cluster: Cluster, script: ScriptedModel, table_target: LoadedModel
) -> None:
    """Its tokenizer and weights are not those that registered."""
    await cluster.coordinate()
    verifier = await cluster.verify(table_target)
    card = (await cluster.worker_status("verifier-0")).worker
    card.name, card.hello.instance_id = "verifier-1", "an earlier life"
    await register(cluster, card)

    async def is_told() -> bool:
        return "another process" in (await cluster.worker_status("verifier-1")).reason

    await until(is_told)
    assert verifier.address == card.address
    reply = await cluster.generate(PROMPT, temperature=0.0, max_tokens=8)
    assert reply.token_ids == script.continue_text(PROMPT, max_len=11)


class Babbler(drafter_pb2_grpc.DrafterServiceServicer):
    """A drafter without a model: hello, then nonsense about every session it hears of."""

    def __init__(self, hello: common_pb2.Hello) -> None:
        self._hello = hello
        self.num_told = 0

    async def Speculate(  # noqa: N802 (the name is the protocol's)
        self, requests: AsyncIterator[drafter_pb2.SpeculateRequest], context: Any
    ) -> AsyncIterator[drafter_pb2.SpeculateResponse]:
        report = drafter_pb2.DrafterReport
        hello = report(hello=self._hello)
        yield drafter_pb2.SpeculateResponse(reports=[hello, hello])
        async for request in requests:
            for order in request.orders:
                if order.HasField("ping"):
                    pong = report(pong=common_pb2.Pong(number=order.ping.number))
                    yield drafter_pb2.SpeculateResponse(reports=[pong])
                about = getattr(order, order.WhichOneof("order") or "ping")
                if order.HasField("open") or order.HasField("commit"):
                    self.num_told += 1
                    yield drafter_pb2.SpeculateResponse(
                        reports=[*nonsense(about.session_id, about.epoch), hello]
                    )


def nonsense(session_id: str, epoch: int) -> list[drafter_pb2.DrafterReport]:
    grow: dict[str, Any] = {"session_id": session_id, "epoch": epoch, "base_len": 3}
    key = key_of(PROMPT)
    grows: list[dict[str, Any]] = [
        {"keys": [1, 2], "positions": [3]},
        {"keys": [key], "positions": [3], "num_candidates": [3], "steps": [1], "token_ids": [1]},
        one(key, [4_000_000_000], [0.5]),
        one(key, [1], [7.5]),
        one(key, [1], [float("nan")]),
        one(key, [1, 1, 1], [0.9, 0.9, 0.9]),
        one(key, [], []),
        one(key, [0], [1.0]) | {"positions": [2**32 - 1]},
        {"spans": common_pb2.GrowthSpans(steps=[1])},
        {"epoch": epoch + 5} | one(key, [2], [0.5]),
        {"session_id": "\x00nobody"} | one(key, [2], [0.5]),
    ]
    refused = common_pb2.Refused(session_id="nobody", epoch=1, kind="Nonsense", message="?")
    return [
        drafter_pb2.DrafterReport(),
        *(drafter_pb2.DrafterReport(grow=drafter_pb2.Grow(**(grow | each))) for each in grows),
        drafter_pb2.DrafterReport(need=drafter_pb2.Need(session_id=session_id, from_len=2**31)),
        drafter_pb2.DrafterReport(refused=refused),
    ]


def one(key: int, token_ids: list[int], estimates: list[float]) -> dict[str, Any]:
    return {
        "keys": [key],
        "positions": [3],
        "num_candidates": [len(token_ids)],
        "steps": [1],
        "token_ids": token_ids,
        "estimates": estimates,
    }


def commit(session_id: str, **fields: Any) -> common_pb2.Commit:
    values: dict[str, Any] = {
        "session_id": session_id,
        "epoch": 1,
        "base_len": 3,
        "base_key": key_of(PROMPT),
        "token_ids": [4],
    }
    return common_pb2.Commit(**(values | fields))


async def serve(
    address: str, orders: list[verifier_pb2.VerifierOrder], *, enough: Any
) -> list[verifier_pb2.VerifierReport]:
    """Talk to a verifier as a coordinator would; all its reports until there are enough."""
    request = verifier_pb2.ServeRequest(orders=orders)
    async with open_channel(address) as channel:
        call = verifier_pb2_grpc.VerifierServiceStub(channel).Serve()
        return await converse(call, request, enough)


async def speculate(
    address: str, orders: list[drafter_pb2.DrafterOrder], *, enough: Any
) -> list[drafter_pb2.DrafterReport]:
    """Talk to a drafter as a verifier would; all its reports until there are enough."""
    request = drafter_pb2.SpeculateRequest(orders=orders)
    async with open_channel(address) as channel:
        call = drafter_pb2_grpc.DrafterServiceStub(channel).Speculate()
        return await converse(call, request, enough)


async def converse(call: Any, request: Any, enough: Any) -> list[Any]:
    await call.write(request)
    seen: list[Any] = []
    async with asyncio.timeout(60):
        async for response in call:
            seen += response.reports
            if enough(seen):
                break
    call.cancel()
    return seen


def kinds(reports: list[Any]) -> set[str]:
    return {each.WhichOneof("report") for each in reports}


def refusals(reports: list[Any]) -> dict[str, str]:
    refused = [each.refused for each in reports if each.HasField("refused")]
    return {each.session_id: each.message for each in refused}


def grown(reports: list[drafter_pb2.DrafterReport]) -> set[str]:
    return {each.grow.session_id for each in reports if each.HasField("grow")}


async def register(cluster: Cluster, worker: registry_pb2.Worker) -> None:
    stub = registry_pb2_grpc.RegistryServiceStub(cluster.channel)
    await stub.Register(registry_pb2.RegisterRequest(worker=worker))


class grpc_server:  # noqa: N801 (used like a function)
    """A bare server that stops at once."""

    def __init__(self) -> None:
        self._server = grpc.aio.server()

    async def __aenter__(self) -> grpc.aio.Server:
        return self._server

    async def __aexit__(self, *_: object) -> None:
        await self._server.stop(grace=None)
