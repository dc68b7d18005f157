"""Who may do what: keys, certificates, the cluster's token; and what never shows up anywhere."""

import asyncio
import logging
import ssl
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest

from coordinator.api_keys import ApiKeys
from ssd.client import AsyncClient, Client, Options, Tls
from ssd.core.errors import (
    ConfigError,
    NoCapacity,
    SsdError,
    Unauthenticated,
    Unavailable,
    UnknownSession,
)
from ssd.engine.loading import LoadedModel
from ssd.v1 import (
    generation_pb2_grpc,
    registry_pb2,
    registry_pb2_grpc,
    verifier_pb2,
    verifier_pb2_grpc,
)
from ssd.wire.security import Security
from tests.models.scripted_model import ScriptedModel
from tests.models.table_runner import agreeing, load_table
from tests.services.certificates import Authority, make_authority
from tests.services.cluster import (
    Cluster,
    read,
    read_rest,
    read_some,
    refusal_of,
    request_of,
    until,
)

PROMPT = (1, 2, 3)
ALICE, BOB = "alice-key-0123456789", "bob-key-0123456789ab"
TOKEN = "the-cluster-token-0123"
CANARY = "canary-7d1f0c"


@pytest.fixture
def keys(tmp_path: Path) -> str:
    file = tmp_path / "keys"
    file.write_text(f"# who may generate\nalice {ALICE}\n\nbob {BOB}\n")
    return str(file)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return make_authority(tmp_path / "pki")


@pytest.fixture
def tls(authority: Authority, tmp_path: Path) -> dict[str, Any]:
    cert, key = authority.issue("service")
    token = tmp_path / "token"
    token.write_text(TOKEN + "\n")
    return {
        "tls_cert": cert,
        "tls_key": key,
        "tls_ca": authority.ca,
        "cluster_token": str(token),
    }


def client(cluster: Cluster, key: str | None = None, **more: Any) -> AsyncClient:
    return AsyncClient(cluster.address, api_key=key, max_retries=0, **more)


# ── keys ──────────────────────────────────────────────────────────────────────────────────────────


async def test_without_a_known_key_nothing_is_answered(
    cluster: Cluster, keys: str, table_target: LoadedModel
) -> None:
    await cluster.coordinate(security={"api_keys": keys})
    await cluster.verify(table_target)
    for key in (None, "", "alice", ALICE + "x"):
        async with client(cluster, key) as stranger:
            for answer in (
                stranger.generate(PROMPT).read(),
                stranger.model_info(),
                stranger.tokenize("a"),
                stranger.detokenize([1]),
                stranger.cancel("a"),
            ):
                with pytest.raises(Unauthenticated):
                    await answer
    with pytest.raises(ConfigError, match="ASCII"):
        client(cluster, "two\nlines")
    async with client(cluster, ALICE) as alice:
        assert len(await alice.tokenize("ab")) == 2
        await alice.generate(PROMPT, Options(max_tokens=2)).read()


async def test_only_the_same_key_reads_what_a_prompt_left_in_the_cache(
    cluster: Cluster, keys: str, table_target: LoadedModel, table_draft: LoadedModel
) -> None:
    """The time to the first token would tell others what was asked."""
    await cluster.coordinate(security={"api_keys": keys})
    await cluster.pair(table_target, table_draft)
    prompt = tuple(index * 5 % 12 for index in range(200))
    cached = []
    for key in (ALICE, BOB, ALICE, BOB):
        async with client(cluster, key) as caller:
            generation = caller.generate(prompt, Options(temperature=0.0, max_tokens=20))
            await generation.read()
            cached.append(generation.completion.num_cached_prompt_tokens)
        await cluster.until_freed()
    assert cached[:2] == [0, 0]
    assert all(count > 150 for count in cached[2:])


async def test_a_request_belongs_to_the_key_that_opened_it(
    cluster: Cluster, keys: str, script: ScriptedModel
) -> None:
    """Another key neither ends it nor learns that it is there."""
    await cluster.coordinate(security={"api_keys": keys})
    await cluster.verify(load_table(agreeing(script), forward_s=0.003))
    mine = Options(request_id="mine", temperature=0.0, max_tokens=300)
    async with client(cluster, ALICE) as alice, client(cluster, BOB) as bob:
        generation = alice.generate(PROMPT, mine)
        pieces = generation.__aiter__()
        await anext(pieces)
        with pytest.raises(UnknownSession, match="mine"):
            await bob.cancel("mine")
        same_name = bob.generate((5, 5), Options(request_id="mine", temperature=0.0, max_tokens=4))
        assert [i async for piece in same_name for i in piece.token_ids] == list(
            script.continue_text((5, 5), max_len=6)
        )
        assert same_name.completion.request_id == "mine"
        await alice.cancel("mine")
        with pytest.raises(SsdError, match="cancel"):
            async for _ in pieces:
                pass
    await cluster.until_freed()


async def test_a_text_is_gone_on_with_by_the_key_that_opened_it_alone(
    cluster: Cluster, keys: str, script: ScriptedModel
) -> None:
    """While it runs and while it is kept: to another key the id is unknown."""
    await cluster.coordinate(security={"api_keys": keys})
    await cluster.verify(load_table(agreeing(script), forward_s=0.003))
    mine = {"request_id": "mine", "temperature": 1.0, "max_tokens": 60}
    stub = generation_pb2_grpc.GenerationServiceStub(cluster.channel)

    def resumed(key: str, resume_from: int) -> Any:
        request = request_of(PROMPT, **mine, resume_from=resume_from)
        return stub.Generate(request, metadata=(("x-api-key", key),))

    call = stub.Generate(request_of(PROMPT, **mine), metadata=(("x-api-key", ALICE),))
    begun = await read_some(call, 10)
    refusals = [await refusal_of(read(resumed(BOB, len(begun))))]
    rest = await read_rest(call)
    refusals.append(await refusal_of(read(resumed(BOB, 1))))
    for code, details in refusals:
        assert code is grpc.StatusCode.NOT_FOUND
        assert "mine" in details
    again = await read(resumed(ALICE, 1))
    assert again.token_ids == (*begun, *rest.token_ids)[1:]
    await cluster.until_freed()


async def test_a_key_has_its_own_limit_of_sessions(
    cluster: Cluster, keys: str, script: ScriptedModel
) -> None:
    await cluster.coordinate(security={"api_keys": keys, "max_sessions_per_key": 2})
    await cluster.verify(load_table(agreeing(script), forward_s=0.003))
    async with client(cluster, ALICE) as alice, client(cluster, BOB) as bob:
        running = [alice.generate(PROMPT, Options(max_tokens=300)) for _ in range(2)]
        for each in running:
            await anext(each.__aiter__())
        with pytest.raises(NoCapacity, match="limit of 2") as refused:
            await alice.generate(PROMPT).read()
        assert refused.value.retry_s
        await bob.generate(PROMPT, Options(max_tokens=2)).read()
        for each in running:
            each.cancel()
        await cluster.until_freed()
        await alice.generate(PROMPT, Options(max_tokens=2)).read()


def test_keys_are_read_again_when_their_file_changes(keys: str) -> None:
    known = ApiKeys(keys)
    assert known.owner_of([("authorization", f"Bearer {ALICE}")]).name == "alice"
    assert known.owner_of([("x-api-key", BOB)]).name == "bob"
    salts = {known.owner_of([("x-api-key", key)]).cache_salt for key in (ALICE, BOB)}
    assert len(salts) == 2
    assert not any(key in salt for salt in salts for key in (ALICE, BOB))
    Path(keys).write_text("carol carols-key-0123456789\n")
    assert known.owner_of([("x-api-key", "carols-key-0123456789")]).name == "carol"
    with pytest.raises(Unauthenticated):
        known.owner_of([("x-api-key", ALICE)])
    Path(keys).write_text("broken\n")  # the last good ones go on
    assert known.owner_of([("x-api-key", "carols-key-0123456789")]).name == "carol"


@pytest.mark.parametrize(
    "text", ["alice\n", "alice short\n", "a b c\n", f"alice {ALICE}\nbob {ALICE}\n"]
)
def test_a_broken_file_of_keys_is_refused_without_showing_it(tmp_path: Path, text: str) -> None:
    file = tmp_path / "keys"
    file.write_text(text)
    with pytest.raises(ConfigError) as refused:
        ApiKeys(str(file))
    assert ALICE not in str(refused.value)
    assert "short" not in str(refused.value)


# ── certificates ──────────────────────────────────────────────────────────────────────────────────


async def test_everything_works_encrypted(
    cluster: Cluster, tls: dict[str, Any], table_target: LoadedModel, table_draft: LoadedModel
) -> None:
    """Client, coordinator, verifier and drafter; clear text gets nowhere."""
    await cluster.coordinate(security=tls)
    await cluster.pair(table_target, table_draft)
    reply = await cluster.generate(PROMPT, temperature=0.0, max_tokens=8, mode="sd")
    assert reply.num_accepted > 0

    def talk() -> None:
        with Client(cluster.address, tls=Tls(ca=tls["tls_ca"])) as ours:
            generation = ours.generate(PROMPT, Options(temperature=0.0, max_tokens=8))
            assert [i for piece in generation for i in piece.token_ids] == list(reply.token_ids)
            with pytest.raises(Unauthenticated, match="token"):
                ours.status()
        with Client(cluster.address, tls=Tls(ca=tls["tls_ca"]), cluster_token=TOKEN) as operator:
            assert len(operator.status().workers) == 2

    await asyncio.to_thread(talk)
    async with client(cluster) as clear:
        with pytest.raises(Unavailable):
            await clear.model_info()


async def test_internal_services_refuse_who_has_no_token(
    cluster: Cluster, tls: dict[str, Any], table_target: LoadedModel
) -> None:
    await cluster.coordinate(security=tls)
    verifier = await cluster.verify(table_target)
    wrong = Tls(ca=tls["tls_ca"]).credentials()
    for metadata in ((), (("x-ssd-cluster-token", "x" * 20),)):
        async with grpc.aio.secure_channel(cluster.address, wrong) as channel:
            registry = registry_pb2_grpc.RegistryServiceStub(channel)
            calls: list[Any] = [
                registry.GetStatus(registry_pb2.GetStatusRequest(), metadata=metadata),
                registry.Register(registry_pb2.RegisterRequest(), metadata=metadata),
            ]
            for call in calls:
                assert (await refusal_of(call))[0] is grpc.StatusCode.UNAUTHENTICATED
        async with grpc.aio.secure_channel(verifier.address, wrong) as channel:
            stub = verifier_pb2_grpc.VerifierServiceStub(channel)
            code, details = await refusal_of(
                stub.GetTokenizer(verifier_pb2.GetTokenizerRequest(), metadata=metadata)
            )
            assert (code, "token" in details) == (grpc.StatusCode.UNAUTHENTICATED, True)
            stream = stub.Serve(iter([verifier_pb2.ServeRequest()]), metadata=metadata)
            assert (await refusal_of(stream.read()))[0] is grpc.StatusCode.UNAUTHENTICATED
    await cluster.generate(PROMPT, max_tokens=2)


async def test_mutual_tls_asks_for_a_certificate(
    cluster: Cluster, tls: dict[str, Any], authority: Authority, table_target: LoadedModel
) -> None:
    await cluster.coordinate(security=tls | {"tls_require_client_cert": True})
    await cluster.verify(table_target)
    cert, key = authority.issue("client")
    async with client(cluster, tls=Tls(ca=authority.ca, cert=cert, key=key)) as known:
        assert (await known.model_info()).model_name == "table-target"
    async with client(cluster, tls=Tls(ca=authority.ca)) as unknown:
        with pytest.raises(Unavailable):
            await unknown.model_info()


async def test_a_renewed_certificate_is_shown_without_a_restart(
    cluster: Cluster, tls: dict[str, Any], authority: Authority, table_target: LoadedModel
) -> None:
    await cluster.coordinate(security=tls)
    await cluster.verify(table_target)
    host, _, port = cluster.address.rpartition(":")

    def shown() -> str:
        return ssl.get_server_certificate((host, int(port)))

    first = await asyncio.to_thread(shown)
    authority.issue("service")
    async with client(cluster, tls=Tls(ca=authority.ca)) as anyone:
        await anyone.model_info()

    async def is_renewed() -> bool:
        return await asyncio.to_thread(shown) != first

    await until(is_renewed)
    await cluster.generate(PROMPT, max_tokens=2)


def test_files_that_are_missing_or_too_weak_are_refused(tmp_path: Path) -> None:
    class Settings:
        tls_cert = tls_key = tls_ca = tls_server_name = None
        tls_require_client_cert = False
        cluster_token: str | None = str(tmp_path / "nowhere")

    with pytest.raises(ConfigError, match="nowhere"):
        Security.of(Settings())
    (tmp_path / "nowhere").write_text("short")
    with pytest.raises(ConfigError, match="16"):
        Security.of(Settings())


# ── what never shows ──────────────────────────────────────────────────────────────────────────────


async def test_a_canary_in_prompts_and_keys_is_never_logged(
    cluster: Cluster,
    tmp_path: Path,
    target: LoadedModel,
    draft: LoadedModel,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Served, refused, cancelled: nothing of what a client said is in the output or the log."""
    caplog.set_level(logging.DEBUG)
    keys = tmp_path / "keys"
    keys.write_text(f"alice {CANARY}-alice-key\n")
    await cluster.coordinate(security={"api_keys": str(keys)})
    await cluster.pair(target, draft)
    prompt = f"so {CANARY} it"
    async with client(cluster, f"{CANARY}-alice-key") as alice:
        await alice.generate(prompt, Options(max_tokens=8, stop=(CANARY,))).read()
        await alice.tokenize(prompt)
        refused = Options(max_tokens=8, stop=(CANARY * 50,), bad_words=(CANARY,))
        with pytest.raises(SsdError) as bad:
            await alice.generate(prompt, refused).read()
        assert CANARY not in str(bad.value)
        async with alice.generate(prompt, Options(max_tokens=400)) as left:
            await anext(left.__aiter__())
    async with client(cluster, f"{CANARY}-wrong-key") as stranger:
        with pytest.raises(Unauthenticated) as unknown:
            await stranger.generate(prompt).read()
        assert CANARY not in str(unknown.value)
    await cluster.until_freed()
    captured = capfd.readouterr()
    assert "request ended" in captured.out + captured.err
    assert CANARY not in captured.out + captured.err + caplog.text


# ── the open parts ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("is_on", [True, False])
async def test_reflection_is_there_where_it_is_asked_for(cluster: Cluster, *, is_on: bool) -> None:
    from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

    await cluster.coordinate(coordinator={"reflection": is_on})
    stub: Any = reflection_pb2_grpc.ServerReflectionStub(cluster.channel)  # type: ignore[arg-type]
    messages: Any = reflection_pb2  # their stubs know no constructor
    request = messages.ServerReflectionRequest(list_services="")
    call = stub.ServerReflectionInfo(iter([request]))
    if not is_on:
        assert (await refusal_of(call.read()))[0] is grpc.StatusCode.UNIMPLEMENTED
        return
    response = await call.read()
    names = {each.name for each in response.list_services_response.service}
    assert "ssd.v1.GenerationService" in names
    assert "ssd.v1.RegistryService" not in names
    call.cancel()
