"""What a verifier keeps of its sessions: asked for by name, and left behind when it breaks."""

import asyncio
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ssd.cli.main import app
from ssd.core.books_flight import Booked, Placed
from ssd.core.client_session import Reconciled
from ssd.core.drafter_flight import Followed
from ssd.core.verifier_flight import Failed, Settled
from ssd.engine.loading import LoadedModel
from ssd.v1 import generation_pb2_grpc, registry_pb2, registry_pb2_grpc
from ssd.wire.flight_file import FlightFile, unpack, write_private
from tests.models.scripted_model import ScriptedModel
from tests.models.table_runner import agreeing, load_table
from tests.services.cluster import Cluster, read, read_rest, read_some, refusal_of, request_of
from tests.services.test_engine_failures import POISON, poisoned
from verifier_service.service import VerifierService

PROMPT = (1, 2, 3)


async def dumped(cluster: Cluster, name: str, *, with_tokens: bool) -> dict[str, bytes]:
    """By role; each service keeps one record here."""
    stub = registry_pb2_grpc.RegistryServiceStub(cluster.channel)
    request = registry_pb2.DumpSessionRequest(session_id=name, with_tokens=with_tokens)
    records = (await stub.DumpSession(request)).records
    by_role = {unpack(each).role: each for each in records}
    assert len(by_role) == len(records)
    return by_role


def only_record_in(folder: Path) -> FlightFile:
    [path] = folder.iterdir()
    return unpack(path.read_bytes())


@pytest.mark.parametrize("mode", ["ssd", "sd", "ar"])
async def test_a_served_session_replays(
    cluster: Cluster, table_target: LoadedModel, table_draft: LoadedModel, mode: str, tmp_path: Path
) -> None:
    await cluster.pair(table_target, table_draft)
    reply = await cluster.generate(PROMPT, max_tokens=80, seed=5, request_id="me", mode=mode)
    record = (await dumped(cluster, "me", with_tokens=True))["verifier"]
    file = unpack(record)
    events = [event for segment in file.segments for event in segment.events]
    emitted = [each.emitted for each in events if isinstance(each, Settled)]
    assert tuple(token_id for ids in emitted for token_id in ids) == reply.token_ids
    assert file.replay().difference is None
    write_private(tmp_path / "me.flight", record)
    said = CliRunner().invoke(app, ["replay", str(tmp_path / "me.flight")])
    assert said.exit_code == 0
    assert "no difference" in said.output
    assert "80 tokens" in said.output
    if mode != "ar":
        record = (await dumped(cluster, "me", with_tokens=True))["drafter"]
        events = [event for part in unpack(record).segments for event in part.events]
        assert sum(isinstance(each, Followed) for each in events) > 3
    for with_tokens in (True, False):
        records = await dumped(cluster, "me", with_tokens=with_tokens)
        assert len(records) == (2 if mode == "ar" else 3)
        for role, record in records.items():
            assert unpack(record).replay().difference is None, role


async def test_an_unknown_session_has_no_record(
    cluster: Cluster, table_target: LoadedModel, table_draft: LoadedModel
) -> None:
    await cluster.pair(table_target, table_draft)
    _, words = await refusal_of(dumped(cluster, "nobody", with_tokens=True))
    assert words == "nobody keeps a record of session nobody"


async def test_the_books_of_a_session_that_moved_replay(
    cluster: Cluster, script: ScriptedModel
) -> None:
    """A second verifier goes on with the text; the books tell of both."""
    await cluster.coordinate()
    first = await cluster.verify(load_table(agreeing(script), forward_s=0.005), name="v0")
    call = cluster.call(PROMPT, temperature=0.0, max_tokens=300, request_id="me")
    await read_some(call, 5)
    await cluster.verify(load_table(agreeing(script)), name="v1")
    await cluster.stop(first)
    reply = await read_rest(call)
    record = unpack((await dumped(cluster, "me", with_tokens=True))["coordinator"])
    events = [event for segment in record.segments for event in segment.events]
    assert [each.committed_len > len(PROMPT) for each in events if isinstance(each, Placed)] == [
        False,
        True,
    ]
    replayed = record.replay()
    assert (replayed.difference, replayed.num_tokens) == (None, 300)
    booked = [
        token_id
        for event in events
        if isinstance(event, Booked) and event.reconciled is Reconciled.CONTINUE
        for token_id in event.token_ids
    ]
    assert tuple(booked[-len(reply.token_ids) :]) == reply.token_ids


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
async def test_a_broken_invariant_leaves_its_record_behind(
    cluster: Cluster, script: ScriptedModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The replay finds nothing wrong with the core: what broke was broken from outside."""
    await cluster.coordinate(logging={"flight_dir": str(tmp_path), "flight_tokens": True})
    verifier = await cluster.verify(load_table(agreeing(script), forward_s=0.005))
    deaths: list[BaseException] = []
    monkeypatch.setattr("verifier_service.service.exit_when_engine_dies", deaths.append)
    call = cluster.call(PROMPT, temperature=0.0, max_tokens=400, request_id="me")
    await call.read()

    def break_it() -> list[object]:
        [session] = verifier.verifier.sessions.values()
        session.token_ids.append(0)
        verifier.verifier.check()
        return []

    assert isinstance(verifier.service, VerifierService)
    verifier.service.engine.post(break_it)  # type: ignore[arg-type]
    while not deaths:
        await cluster.status()
    call.cancel()
    file = only_record_in(tmp_path)
    assert file.session_id.endswith("/me")
    assert file.reason.startswith("AssertionError")
    assert file.replay().difference is None


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
async def test_an_engine_whose_record_cannot_be_written_ends_its_process_all_the_same(
    cluster: Cluster, script: ScriptedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H6: it may have died for want of the memory that a record takes."""

    def no_memory(*_: object) -> None:
        raise MemoryError("no more")

    def break_it() -> list[object]:
        raise MemoryError("a first time")

    await cluster.coordinate()
    verifier = await cluster.verify(load_table(agreeing(script)))
    deaths: list[BaseException] = []
    monkeypatch.setattr("verifier_service.service.exit_when_engine_dies", deaths.append)
    monkeypatch.setattr("verifier_service.service.FlightStore.leave", no_memory)
    assert isinstance(verifier.service, VerifierService)
    verifier.service.engine.post(break_it)  # type: ignore[arg-type]
    while not deaths:
        await cluster.status()
    assert str(deaths[0]) == "a first time"


def test_replay_says_what_is_wrong_with_a_file(tmp_path: Path) -> None:
    said = CliRunner().invoke(app, ["replay", str(tmp_path / "none")])
    assert said.exit_code == 2
    (tmp_path / "bad").write_bytes(b"bad")
    said = CliRunner().invoke(app, ["replay", str(tmp_path / "bad")])
    assert said.exit_code == 1
    assert "no flight record" in said.output


async def test_a_poisoned_session_leaves_its_record_behind(
    cluster: Cluster, script: ScriptedModel, tmp_path: Path
) -> None:
    await cluster.coordinate(logging={"flight_dir": str(tmp_path), "flight_tokens": True})
    await cluster.verify(load_table(poisoned(agreeing(script)), name="table-target"))
    _, words = await refusal_of(cluster.generate(POISON, max_tokens=9, request_id="bad"))
    file = only_record_in(tmp_path)
    assert file.session_id.endswith("/bad")
    assert file.reason == words
    assert sum(isinstance(each, Failed) for each in file.segments[0].events) >= 3
    assert file.replay().difference is None


async def test_a_request_of_any_key_is_found_by_its_id(
    cluster: Cluster, table_target: LoadedModel, tmp_path: Path
) -> None:
    """A session's name begins with its key's owner, and ends with the number of its answer."""
    keys = tmp_path / "keys"
    keys.write_text(f"anna {'a' * 32}\nbert {'b' * 32}\n")
    await cluster.coordinate(security={"api_keys": str(keys)})
    await cluster.verify(table_target)
    stub = generation_pb2_grpc.GenerationServiceStub(cluster.channel)
    for key in ("a" * 32, "b" * 32):
        request = request_of(PROMPT, temperature=0.0, max_tokens=9, request_id="a/b")
        await read(stub.Generate(request, metadata=[("x-api-key", key)]))
    registry = registry_pb2_grpc.RegistryServiceStub(cluster.channel)
    asked = registry_pb2.DumpSessionRequest(session_id="a/b", with_tokens=True)
    records = [unpack(each) for each in (await registry.DumpSession(asked)).records]
    assert sorted(each.role for each in records) == ["coordinator"] * 2 + ["verifier"] * 2
    assert {each.session_id for each in records} == {"anna\na/b", "bert\na/b", "a/b"}
    asked = registry_pb2.DumpSessionRequest(session_id="anna")
    _, words = await refusal_of(registry.DumpSession(asked))
    assert words == "nobody keeps a record of session anna"


async def test_what_the_command_dumps_into_a_new_folder_the_oracle_reads(
    cluster: Cluster,
    table_target: LoadedModel,
    table_draft: LoadedModel,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    await cluster.pair(table_target, table_draft)
    await cluster.generate(PROMPT, max_tokens=80, seed=5, request_id="me")
    folder, runner = tmp_path / "new" / "dumps", CliRunner()
    command = ["dump", "me", "--address", cluster.address, "--with-tokens", "--out", str(folder)]
    dump = await asyncio.to_thread(runner.invoke, app, command)
    assert dump.exit_code == 0, dump.output
    files = sorted(str(each) for each in folder.iterdir())
    assert "best in hindsight" in runner.invoke(app, ["bench", "oracle", *files]).output
