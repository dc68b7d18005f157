"""Each thing that can be wrong with a machine is found, and comes with advice."""

import json
import socket
from collections.abc import Mapping
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ssd.cli.main import app
from ssd.client import Client
from ssd.config import SsdConfig
from ssd.doctor import Health, machine_checks, service_checks
from ssd.doctor import machine as looked_at
from tests.models.tiny_pair import byte_tokenizer


def found(**sections: Mapping[str, object]) -> dict[str, tuple[Health, str]]:
    config = SsdConfig.model_validate({"coordinator": {"port": 0}} | sections)
    checks = list(machine_checks(config))
    assert all(each.advice for each in checks if each.health is not Health.OK)
    return {each.name: (each.health, each.found) for each in checks}


def test_this_machine_can_run_the_tests() -> None:
    assert not [name for name, (health, _) in found().items() if health is Health.FAIL]


def test_a_taken_port_is_found_and_one_that_answers_is_left_to_the_service() -> None:
    with socket.socket() as mute:
        mute.bind(("127.0.0.1", 0))
        health, words = found(coordinator={"port": mute.getsockname()[1]})["port"]
        assert health is Health.FAIL
        mute.listen()
        health, words = found(coordinator={"port": mute.getsockname()[1]})["port"]
        assert (health, "in use" in words) == (Health.OK, True)


def test_a_missing_model_is_found() -> None:
    health, words = found(models={"target": "./no/such/model"})["models"]
    assert health is Health.WARN
    assert "no/such/model" in words


def test_tokenizers_that_differ_are_found(tmp_path: Path) -> None:
    folders = {}
    for role in ("target", "draft"):
        folders[role] = tmp_path / role
        folders[role].mkdir()
        tokenizer = byte_tokenizer()
        if role == "draft":
            tokenizer.add_tokens(["another"])
        tokenizer.save(str(folders[role] / "tokenizer.json"))
    models = {role: str(path) for role, path in folders.items()}
    assert found(models=models)["tokenizers"][0] is Health.FAIL


def test_a_device_that_is_not_there_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(looked_at, "_PROBE", "print('[\"2.13\", []]')")
    assert found(models={"device": "cuda"})["devices"][0] is Health.FAIL
    assert found(models={"device": "auto"})["devices"][0] is Health.OK
    monkeypatch.setattr(looked_at, "_PROBE", "raise ImportError")
    assert found()["devices"][0] is Health.FAIL


def test_an_old_package_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(looked_at.metadata, "version", lambda name: "0.1")
    health, words = found()["packages"]
    assert health is Health.FAIL
    assert "grpcio is 0.1" in words


def test_a_lack_of_memory_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(looked_at, "_available_bytes", lambda: 1000)
    assert found()["memory"][0] is Health.FAIL


def test_a_coordinator_that_was_named_must_answer() -> None:
    with Client("127.0.0.1:1") as client:
        [expected] = service_checks(client, is_expected=True)
        [unexpected] = service_checks(client, is_expected=False)
    assert (expected.health, unexpected.health) == (Health.FAIL, Health.OK)


def test_the_command_prints_json_and_fails_where_something_does() -> None:
    said = CliRunner().invoke(app, ["doctor", "--json", "--address", "127.0.0.1:1"])
    assert said.exit_code == 1
    checks = {each["name"]: each for each in json.loads(said.output)}
    assert checks["coordinator"]["health"] == "fail"
    assert checks["cores"]["found"].endswith("CPU cores") or checks["cores"]["advice"]
