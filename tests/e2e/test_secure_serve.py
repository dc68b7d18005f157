"""`ssd serve` as an operator exposes it: mutual TLS, keys, a cluster token, traces, SIGTERM.

A canary stands in prompts, keys, stop strings and the token, and must turn up nowhere.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from ssd.client import Client, Options, Tls
from ssd.cluster.processes import wait_until
from ssd.core.errors import SsdError, Unauthenticated, Unavailable
from ssd.core.mode import Mode
from ssd.wire.otlp_receiver import OtlpReceiver, otlp_receiver
from tests.e2e.test_serve_refusals import marked
from tests.models.tiny_pair import TinyPair, write_tiny_pair
from tests.services.certificates import Authority, make_authority

pytestmark = pytest.mark.timeout(300)
SSD = Path(sys.executable).with_name("ssd")
CANARY = "canary-51b9e7"
KEY, TOKEN = f"{CANARY}-alice-key-0123", f"{CANARY}-cluster-token"
PROMPT = f"Once upon a {CANARY}"


@dataclass
class Secured:
    """What an operator and the clients saw from the start of a service to its end."""

    temporary: Path
    authority: Authority
    receiver: OtlpReceiver
    mark: str = field(default_factory=lambda: uuid.uuid4().hex)
    address: str = ""
    texts: dict[Mode, tuple[int, ...]] = field(default_factory=dict)
    workers: list[str] = field(default_factory=list)
    refusals: dict[str, Exception] = field(default_factory=dict)
    command: str = ""  # what `ssd generate` said
    written: str = ""  # output and logs of all processes
    drained: list[tuple[int, ...]] = field(default_factory=list)
    is_refused_while_draining: bool = False
    exit_code: int | None = None
    left: Sequence[int] = ()

    def client(self, *, key: str | None = KEY, **more: Any) -> Client:
        cert, private = (str(self.authority.folder / f"alice.{end}") for end in ("pem", "key"))
        tls = Tls(ca=self.authority.ca, cert=cert, key=private)
        return Client(self.address, **({"api_key": key, "tls": tls, "max_retries": 0} | more))


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    folder = tmp_path_factory.mktemp("secured")
    pair, authority = write_tiny_pair(folder), make_authority(folder / "pki")
    temporary = Path(tempfile.mkdtemp(prefix="ssd-s-", dir="/tmp"))  # socket paths must be short
    with otlp_receiver() as receiver:
        seen = Secured(temporary, authority, receiver)
        process = start(seen, pair, settings(folder, authority))
        try:
            assert wait_until(lambda: has_begun(seen, process), 150.0), written(seen)
            use(seen)
            drain(seen, process)
        finally:
            process.kill()
            process.wait()
        seen.written += written(seen)
        wait_until(lambda: not marked(f"SERVE_TEST={seen.mark}"), 10.0)
        seen.left = marked(f"SERVE_TEST={seen.mark}")
        yield seen
    shutil.rmtree(temporary, ignore_errors=True)


def settings(folder: Path, authority: Authority) -> dict[str, str]:
    cert, key = authority.issue("service")
    authority.issue("alice")
    for name, text in (("keys", f"alice {KEY}\n"), ("token", TOKEN), ("key", KEY)):
        (folder / name).write_text(text)
    return {
        "security.tls_cert": cert,
        "security.tls_key": key,
        "security.tls_ca": authority.ca,
        "security.tls_require_client_cert": "true",
        "security.cluster_token": str(folder / "token"),
        "security.api_keys": str(folder / "keys"),
    }


def start(seen: Secured, pair: TinyPair, chosen: dict[str, str]) -> subprocess.Popen[bytes]:
    models = ["--target", str(pair.target), "--draft", str(pair.draft), "--dtype", "fp64"]
    flags = ["--port", "0", "--set", "logging.level=debug", "--set", "models.draft_dtype=fp64"]
    flags += [word for key, value in chosen.items() for word in ("--set", f"{key}={value}")]
    with (seen.temporary / "out").open("w") as out, (seen.temporary / "err").open("w") as err:
        environ = environment(seen)
        return subprocess.Popen(
            [SSD, "serve", *models, *flags], env=environ, stdout=out, stderr=err
        )


def environment(seen: Secured) -> dict[str, str]:
    return os.environ | {
        "TMPDIR": str(seen.temporary),
        "XDG_CONFIG_HOME": str(seen.temporary / "config"),
        "SERVE_TEST": seen.mark,
        "OMP_NUM_THREADS": "1",
        "OTEL_EXPORTER_OTLP_ENDPOINT": seen.receiver.endpoint,
        "OTEL_EXPORTER_OTLP_INSECURE": "true",
    }


def has_begun(seen: Secured, process: subprocess.Popen[bytes]) -> bool:
    assert process.poll() is None, written(seen)
    said = (seen.temporary / "out").read_text()
    seen.address = said.partition("serving at ")[2].strip()
    return bool(seen.address)


def written(seen: Secured) -> str:
    """All that the processes wrote, Ray's logs of its workers among it."""
    files = [each for each in seen.temporary.rglob("*") if each.is_file() and not each.is_symlink()]
    return "\n".join(each.read_text(errors="replace") for each in files if each.suffix != ".db")


def use(seen: Secured) -> None:
    with seen.client(cluster_token=TOKEN) as client:
        for mode in Mode:
            seen.texts[mode] = text_of(client, mode)
        seen.workers = [each.worker.name for each in client.status().workers]
    bare = Tls(ca=seen.authority.ca)
    strangers: dict[str, tuple[dict[str, Any], bool]] = {
        "clear text": ({"tls": None}, False),
        "no certificate": ({"tls": bare}, False),
        "no key": ({"key": None}, False),
        "another key": ({"key": KEY + "x"}, False),
        "no token": ({}, True),
    }
    for name, (changed, asks_for_status) in strangers.items():
        with seen.client(**changed) as stranger:
            try:
                _ = stranger.status() if asks_for_status else text_of(stranger, Mode.AR)
            except SsdError as error:
                seen.refusals[name] = error
    seen.command = by_command(seen)
    seen.written = written(seen)  # Ray's files go with it


def by_command(seen: Secured) -> str:
    """The same prompt by `ssd generate`, its files named in variables."""
    folder = seen.authority.folder
    names = {"TLS_CA": "ca.pem", "TLS_CERT": "alice.pem", "TLS_KEY": "alice.key"}
    variables = {f"SSD_SECURITY__{key}": str(folder / name) for key, name in names.items()}
    variables["SSD_SECURITY__CLUSTER_TOKEN"] = str(folder.parent / "token")
    flags = ["--address", seen.address, "--api-key-file", str(folder.parent / "key")]
    asked = ["--temperature", "1", "--seed", "5", "--max-tokens", "8", "--json"]
    return subprocess.run(
        [SSD, "generate", PROMPT, *flags, *asked],
        env=environment(seen) | variables,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    ).stdout


def text_of(client: Client, mode: Mode, max_tokens: int = 60) -> tuple[int, ...]:
    options = Options(
        mode=mode,
        temperature=1.0,
        seed=5,
        max_tokens=max_tokens,
        ignore_eos=True,
        stop=(CANARY,),
    )
    return tuple(i for piece in client.generate(PROMPT, options) for i in piece.token_ids)


def drain(seen: Secured, process: subprocess.Popen[bytes]) -> None:
    """SIGTERM while texts run: they end whole, and nobody else comes in."""
    with ThreadPoolExecutor() as threads, seen.client(cluster_token=TOKEN) as client:
        running: list[Future[tuple[int, ...]]] = [
            threads.submit(text_of, client, mode, 400) for mode in Mode
        ]
        wait_until(lambda: len(client.status().sessions) == len(Mode), 10.0)
        process.send_signal(signal.SIGTERM)

        def is_refused() -> bool:
            with seen.client() as late:
                try:
                    text_of(late, Mode.AR, 1)
                except Unavailable:
                    return True
            return all(each.done() for each in running)

        wait_until(is_refused, 60.0)
        seen.is_refused_while_draining = not all(each.done() for each in running)
        seen.drained = [each.result(120) for each in running]
    seen.exit_code = process.wait(60)


def test_all_modes_say_the_same_to_who_may_ask(secured: Secured) -> None:
    assert len(set(secured.texts.values())) == 1
    assert all(len(text) == 60 for text in secured.texts.values())
    assert sorted(secured.workers) == ["drafter-0", "verifier-0"]


def test_ssd_generate_finds_its_certificate_and_key(secured: Secured) -> None:
    assert f'"token_ids": {list(secured.texts[Mode.AR][:8])}' in " ".join(secured.command.split())


def test_strangers_are_refused(secured: Secured) -> None:
    kinds = {name: type(error) for name, error in secured.refusals.items()}
    assert kinds == {
        "clear text": Unavailable,
        "no certificate": Unavailable,
        "no key": Unauthenticated,
        "another key": Unauthenticated,
        "no token": Unauthenticated,
    }


def test_sigterm_lets_running_texts_end_and_takes_no_more(secured: Secured) -> None:
    assert len(set(secured.drained)) == 1
    assert all(len(text) == 400 for text in secured.drained)
    assert secured.drained[0][:60] == secured.texts[Mode.AR]
    assert secured.is_refused_while_draining
    assert secured.exit_code == 130
    assert secured.left == []


def test_the_canary_is_in_no_log(secured: Secured) -> None:
    assert "request ended" in secured.written
    assert "round done" in secured.written, "the workers' logs are among it"
    assert CANARY not in secured.written


def test_the_canary_is_in_no_trace(secured: Secured) -> None:
    services = {service for service, _ in secured.receiver.spans}
    assert services == {"ssd-coordinator", "ssd-verifier", "ssd-drafter"}
    for request in secured.receiver.requests:
        assert CANARY.encode() not in request.SerializeToString()


def test_no_refusal_repeats_what_the_client_said(secured: Secured) -> None:
    assert all(CANARY not in str(error) for error in secured.refusals.values())
