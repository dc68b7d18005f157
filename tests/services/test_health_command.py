"""`ssd health`, in clear and encrypted: what the probes of overlays with TLS run."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog
from typer.testing import CliRunner, Result

from ssd.cli.main import app
from ssd.engine.loading import LoadedModel
from tests.services.certificates import make_authority
from tests.services.cluster import Cluster, until

SERVICE = "ssd.v1.GenerationService"


@pytest.fixture(autouse=True)
def _alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No configuration of anybody's, and no log of the service in this process in the output."""
    monkeypatch.chdir(tmp_path)
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    yield
    structlog.reset_defaults()


@pytest.fixture(params=["clear", "mutual TLS"])
def security(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> dict[str, Any]:
    """Of the service; the command finds the same in its environment, as in a pod."""
    if request.param == "clear":
        return {}
    authority = make_authority(tmp_path / "pki")
    cert, key = authority.issue("service")
    token = tmp_path / "token"
    token.write_text("the-cluster-token-0123\n")
    settings = {
        "tls_cert": cert,
        "tls_key": key,
        "tls_ca": authority.ca,
        "cluster_token": str(token),
        "tls_require_client_cert": True,
    }
    for name, value in settings.items():
        monkeypatch.setenv(f"SSD_SECURITY__{name.upper()}", str(value))
    return settings


async def ask(address: str, *more: str) -> Result:
    command = ["health", "--address", address, "--timeout-s", "5", *more]
    return await asyncio.to_thread(CliRunner().invoke, app, command)


async def test_health_is_what_the_process_says_of_itself(
    cluster: Cluster, table_target: LoadedModel, security: dict[str, Any]
) -> None:
    await cluster.coordinate(security=security)
    assert (await ask(cluster.address)).exit_code == 0
    waiting = await ask(cluster.address, "--service", SERVICE)
    assert waiting.exit_code == 1
    assert waiting.stderr == f"error: {cluster.address} says NOT_SERVING for {SERVICE}\n"
    verifier = await cluster.verify(table_target)

    async def is_ready() -> bool:
        return (await ask(cluster.address, "--service", SERVICE)).exit_code == 0

    await until(is_ready)
    worker = await ask(verifier.address)
    assert (worker.exit_code, worker.output) == (0, "SERVING\n")
    unknown = await ask(verifier.address, "--service", "ssd.v1.Nobody")
    assert unknown.exit_code == 1
    assert "NOT_FOUND" in unknown.stderr


async def test_a_probe_in_clear_does_not_pass_an_encrypted_port(
    cluster: Cluster, security: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    await cluster.coordinate(security=security)
    for name in security:
        monkeypatch.delenv(f"SSD_SECURITY__{name.upper()}")
    assert (await ask(cluster.address)).exit_code == (1 if security else 0)


async def test_nobody_there_is_one_sentence() -> None:
    outcome = await ask("127.0.0.1:1", "--timeout-s", "0.5")
    assert outcome.exit_code == 1
    assert outcome.stderr.startswith("error: 127.0.0.1:1 does not answer for the process: ")
    assert len(outcome.stderr.splitlines()) == 1
