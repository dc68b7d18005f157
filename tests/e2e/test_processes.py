"""Three real processes on this machine: what a team starts, kills and stops."""

import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from ssd.client import Client, Options
from ssd.core.errors import SsdError
from ssd.core.mode import Mode
from tests.e2e.processes import PATIENCE_S, Service, until
from tests.models.tiny_pair import byte_tokenizer, write_tiny_pair

pytestmark = pytest.mark.timeout(300)
PROMPT = "Once upon a time"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("e2e")
    write_tiny_pair(folder)
    return folder


@pytest.fixture
def service(folder: Path, tmp_path: Path) -> Iterator[Service]:
    made = Service(tmp_path, folder / "target", folder / "draft")
    yield made
    made.close()


@pytest.fixture(scope="module")
def running(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """One service for all tests that leave it as they found it, stopped by the last one."""
    made = Service(tmp_path_factory.mktemp("running"), folder / "target", folder / "draft")
    try:
        made.start_all()
        yield made
    finally:
        made.close()


def text_of(client: Client, options: Options) -> tuple[int, ...]:
    generation = client.generate(PROMPT, options)
    return tuple(token_id for piece in generation for token_id in piece.token_ids)


def options(mode: Mode, *, temperature: float, max_tokens: int = 60) -> Options:
    return Options(
        mode=mode, temperature=temperature, seed=11, max_tokens=max_tokens, ignore_eos=True
    )


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_all_modes_give_equal_ids(running: Service, temperature: float) -> None:
    with Client(running.address) as client:
        texts = {mode: text_of(client, options(mode, temperature=temperature)) for mode in Mode}
    assert len(set(texts.values())) == 1
    assert all(len(text) == 60 for text in texts.values())


def test_a_taken_port_ends_the_process_with_a_sentence(running: Service, service: Service) -> None:
    port = running.address.rpartition(":")[2]
    process = service.start("coordinator", coordinator__port=port)
    assert process.popen.wait(PATIENCE_S) == 2
    said = process.errors.read_text().strip()
    assert said == f"error: port {port} of 127.0.0.1 is taken, or not ours to take"


@pytest.mark.parametrize("module", ["verifier_service", "drafter_service"])
def test_an_unknown_model_ends_the_process_with_a_sentence(service: Service, module: str) -> None:
    process = service.start(
        module, models__target="./no/such/model", models__draft="./no/such/model"
    )
    assert process.popen.wait(PATIENCE_S) == 2
    said = process.errors.read_text().strip()
    assert said == "error: there is no model folder ./no/such/model"


def test_an_unknown_setting_ends_the_process_with_a_sentence(service: Service) -> None:
    process = service.start("coordinator", coordinator__prot=1)
    assert process.popen.wait(PATIENCE_S) == 2
    assert "did you mean coordinator.port?" in process.errors.read_text()


def test_a_drafter_with_another_tokenizer_is_left_aside_and_the_status_says_why(
    running: Service, service: Service, tmp_path: Path
) -> None:
    stranger = tmp_path / "stranger"
    shutil.copytree(service.draft, stranger)
    tokenizer = byte_tokenizer()
    tokenizer.add_tokens(["another"])
    tokenizer.save(str(stranger / "tokenizer.json"))
    service.address = running.address
    drafter = service.start("drafter_service", name="stranger", models__draft=stranger)
    drafter.serves_at()
    with Client(running.address) as client:

        def reasons() -> dict[str, str]:
            return {each.worker.name: each.reason for each in client.status().workers}

        until(lambda: "stranger" in reasons(), drafter)
        assert "different tokenizers" in reasons()["stranger"]
        assert not reasons()["drafter-0"]
        assert len(text_of(client, options(Mode.SSD, temperature=1.0))) == 60
    assert drafter.terminate() == 0


def test_a_drafter_killed_in_the_middle_changes_nothing(running: Service) -> None:
    with Client(running.address) as client:
        plain = text_of(client, options(Mode.AR, temperature=1.0, max_tokens=400))
        generation = client.generate(PROMPT, options(Mode.SSD, temperature=1.0, max_tokens=400))
        text: list[int] = []
        for piece in generation:
            if not text:
                running.processes["drafter-0"].kill()
            text += piece.token_ids
        assert tuple(text) == plain
        again = running.start("drafter_service", name="drafter-0")
        again.serves_at()
        running.until_up("drafter-0")
        assert text_of(client, options(Mode.SSD, temperature=1.0, max_tokens=400)) == plain


def test_a_killed_verifier_comes_back_and_the_stream_goes_on(running: Service) -> None:
    with Client(running.address) as client:
        plain = text_of(client, options(Mode.AR, temperature=1.0, max_tokens=400))
        generation = client.generate(PROMPT, options(Mode.SSD, temperature=1.0, max_tokens=400))
        text: list[int] = []
        for piece in generation:
            if not text:
                running.processes["verifier-0"].kill()
                running.start("verifier_service", name="verifier-0")
            text += piece.token_ids
        assert tuple(text) == plain


def test_sigterm_ends_every_process_with_0(running: Service) -> None:
    """Also with a session running: the coordinator lets it finish or go within its grace time."""
    with Client(running.address) as client:
        running.until_up("verifier-0", "drafter-0")
        generation = client.generate(PROMPT, options(Mode.SSD, temperature=1.0, max_tokens=400))
        next(iter(generation))
        coordinator = running.processes["coordinator"]
        coordinator.popen.send_signal(signal.SIGTERM)
        try:
            for _ in generation:
                pass
        except SsdError as error:
            pytest.fail(f"a running session was cut: {error}")
        assert coordinator.popen.wait(PATIENCE_S) == 0
    for name in ("drafter-0", "verifier-0"):
        assert running.processes[name].terminate() == 0
    for process in running.processes.values():
        assert "Traceback" not in process.errors.read_text()
