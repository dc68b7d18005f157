"""Coordinators that share a verifier know nothing of each other's sessions, ids and drafters."""

import asyncio
import time
from contextlib import AsyncExitStack
from typing import Any

from ssd.engine.loading import LoadedModel
from ssd.v1 import common_pb2, verifier_pb2, verifier_pb2_grpc
from ssd.wire.channels import open_channel
from ssd.wire.hello import PROTOCOL_VERSION
from tests.models.scripted_model import ScriptedModel
from tests.models.table_runner import agreeing, load_table
from tests.services.cluster import PATIENCE_S, Cluster, read_rest, read_some, until
from tests.services.test_strange_peers import opening

PROMPT = (1, 2, 3)
Order = verifier_pb2.VerifierOrder


class Coordinator:
    """A coordinator's end of one stream to a verifier, by hand."""

    def __init__(self, address: str, instance_id: str, *, is_silent: bool = False) -> None:
        self.tokens: dict[str, list[int]] = {}
        self.finished: set[str] = set()
        self.ledgers: list[common_pb2.Ledger] = []
        self.num_tokens_at: list[int] = []  # that had come for all sessions when each ledger came
        self._address = address
        self._is_silent = is_silent
        self._hello = common_pb2.Hello(protocol_version=PROTOCOL_VERSION, instance_id=instance_id)

    async def __aenter__(self) -> "Coordinator":
        self._channel = open_channel(self._address)
        self._call = verifier_pb2_grpc.VerifierServiceStub(self._channel).Serve()
        await self.say(Order(hello=self._hello))
        self._tasks = [asyncio.create_task(self._read())]
        if not self._is_silent:
            self._tasks.append(asyncio.create_task(self._beat()))
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        self._call.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._channel.close()

    async def say(self, *orders: verifier_pb2.VerifierOrder) -> None:
        await self._call.write(verifier_pb2.ServeRequest(orders=orders))

    async def until(self, holds: Any) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not holds():  # noqa: ASYNC110 (what is waited for comes over the network)
                await asyncio.sleep(0.01)

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(0.2)
            await self.say(Order(ping=common_pb2.Ping(number=1)))

    async def _read(self) -> None:
        async for response in self._call:
            for report in response.reports:
                if report.HasField("commit"):
                    ids = report.commit.token_ids
                    self.tokens.setdefault(report.commit.session_id, []).extend(ids)
                elif report.HasField("finished"):
                    self.finished.add(report.finished.session_id)
                elif report.HasField("ledger"):
                    self.ledgers.append(report.ledger)
                    self.num_tokens_at.append(sum(len(each) for each in self.tokens.values()))


def numbers(coordinator: Coordinator) -> set[int]:
    """Of the heartbeats that a ledger answered."""
    return {each.number for each in coordinator.ledgers}


def slow_target(script: ScriptedModel) -> LoadedModel:
    return load_table(agreeing(script), name="table-target", forward_s=0.004)


async def test_equal_request_ids_of_two_coordinators_are_two_sessions(
    cluster: Cluster, script: ScriptedModel, table_draft: LoadedModel
) -> None:
    verifier, drafter = await cluster.pair(slow_target(script), table_draft)
    async with (
        Coordinator(verifier.address, "one") as one,
        Coordinator(verifier.address, "two") as two,
    ):
        await one.say(Order(open=opening("same", max_len=400)))
        await two.say(Order(open=opening("same", max_len=60, token_ids=(4, 5, 6))))
        await one.until(lambda: one.tokens and two.tokens)
        await two.say(Order(close=common_pb2.Close(session_id="other", epoch=9)))
        await two.until(lambda: two.finished)
        await two.say(Order(close=common_pb2.Close(session_id="same", epoch=9)))
        await one.say(Order(ping=common_pb2.Ping(number=5)))
        await two.say(Order(ping=common_pb2.Ping(number=6)))
        await one.until(lambda: 5 in numbers(one) and 6 in numbers(two))
        (of_one,) = (each for each in one.ledgers if each.number == 5)
        (of_two,) = (each for each in two.ledgers if each.number == 6)
        assert list(of_one.session_ids) == ["same"]
        assert not of_two.session_ids
        await one.until(lambda: one.finished)
    assert tuple(one.tokens["same"]) == script.continue_text(PROMPT, max_len=400)
    assert tuple(two.tokens["same"]) == script.continue_text((4, 5, 6), max_len=60)
    assert drafter.drafter.num_steps > 0
    await cluster.until_freed()


async def test_coordinators_divide_what_is_free_and_keep_out_of_each_others_way(
    cluster: Cluster, script: ScriptedModel
) -> None:
    await cluster.coordinate()
    busy = await cluster.verify(slow_target(script), name="verifier-0")
    await cluster.verify(slow_target(script), name="verifier-1")
    async with Coordinator(busy.address, "one") as one:
        await one.say(Order(open=opening("long", max_len=500)))
        await one.until(lambda: one.tokens)
        heard = len(one.ledgers)
        await one.until(lambda: len(one.ledgers) > heard + 1)  # the other one heard of it as well
        credit = one.ledgers[-1].credit
        assert credit.sessions == (busy.verifier.limits.max_sessions - 1) // 2
        assert 0 < credit.slots <= busy.verifier.limits.kv_slots // 2
        assert credit.num_others == 0
        call = cluster.call(PROMPT, temperature=0.0, max_tokens=200)
        await read_some(call, 1)
        (session,) = (await cluster.status()).sessions
        assert session.verifier == "verifier-1"
        assert not one.finished
        await read_rest(call)


async def test_a_ledger_comes_in_order_with_the_commits_that_it_speaks_of(
    cluster: Cluster, script: ScriptedModel, table_target: LoadedModel
) -> None:
    """One that overtook a commit would look as if the commit were lost."""
    await cluster.coordinate()
    verifier = await cluster.verify(table_target)
    machine = verifier.service.machine
    settle = machine.settle

    def slow_settle() -> list[Any]:
        outputs = settle()
        time.sleep(0.002)  # heartbeats come before these outputs have left
        return outputs

    machine.settle = slow_settle  # type: ignore[method-assign]
    async with Coordinator(verifier.address, "one", is_silent=True) as one:
        await one.say(Order(open=opening("a", max_len=300)))
        while not one.finished:
            await one.say(Order(ping=common_pb2.Ping(number=1)))
        said = [
            (each.committed_lens[0] - len(PROMPT), num_tokens)
            for each, num_tokens in zip(one.ledgers, one.num_tokens_at, strict=True)
            if each.session_ids
        ]
    assert len({committed for committed, _ in said}) > 20
    assert all(committed == num_tokens for committed, num_tokens in said)


async def test_a_coordinator_that_leaves_or_assigns_takes_no_drafter_from_another(
    cluster: Cluster, script: ScriptedModel, table_target: LoadedModel, table_draft: LoadedModel
) -> None:
    verifier, drafter = await cluster.pair(table_target, table_draft)
    async with Coordinator(verifier.address, "one") as one:
        await one.say(Order(assign_drafters=verifier_pb2.AssignDrafters(addresses=[])))
        await one.say(Order(ping=common_pb2.Ping(number=1)))
        await one.until(lambda: one.ledgers)
        assert verifier.verifier.drafters == {drafter.address}
    reply = await cluster.generate(PROMPT, mode="sd", temperature=0.0, max_tokens=40)
    assert reply.token_ids == script.continue_text(PROMPT, max_len=43)
    assert reply.num_accepted > 0


async def test_a_second_stream_of_a_coordinator_takes_the_place_of_the_first(
    cluster: Cluster, script: ScriptedModel, table_target: LoadedModel
) -> None:
    """The end of the first, when it comes, ends nothing of the second."""
    await cluster.coordinate()
    verifier = await cluster.verify(table_target)
    async with AsyncExitStack() as streams:
        async with Coordinator(verifier.address, "one") as first:
            await first.say(Order(open=opening("a", max_len=300)))
            await first.until(lambda: first.finished)
            second = await streams.enter_async_context(Coordinator(verifier.address, "one"))
            await second.say(Order(open=opening("b", max_len=300)))
            await second.until(lambda: second.tokens)
        await second.until(lambda: second.finished)
        assert tuple(second.tokens["b"]) == script.continue_text(PROMPT, max_len=300)
    await cluster.until_freed()


async def test_heartbeats_tell_steps_and_compare_the_clocks(
    cluster: Cluster, script: ScriptedModel, table_target: LoadedModel, table_draft: LoadedModel
) -> None:
    """The services share a machine here, so their clocks differ by nothing but the way."""
    verifier, _ = await cluster.pair(table_target, table_draft)
    await cluster.generate(PROMPT, temperature=0.0, max_tokens=40)
    links = verifier.service._links._links.values()  # type: ignore[union-attr]

    async def has_heard() -> bool:
        return all(link.stream.clock_samples and link.stream.peer_steps for link in links)

    await until(has_heard)
    (link,) = links
    best = min(link.stream.clock_samples, key=lambda sample: sample.round_trip_ns)
    assert best.round_trip_ns > 0
    assert abs(best.offset_ns) <= best.round_trip_ns
