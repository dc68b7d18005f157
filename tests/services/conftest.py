"""Fixtures: an empty cluster that stops what was started in it, and models to put into it."""

from collections.abc import AsyncIterator

import pytest

from ssd.engine.loading import LoadedModel, load_model
from tests.models.scripted_model import ScriptedModel
from tests.models.table_runner import agreeing, load_table, short_sighted
from tests.models.tiny_pair import TinyPair, write_tiny_pair
from tests.services.cluster import Cluster


@pytest.fixture
async def cluster(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Cluster]:
    """Nothing runs in it yet. A dead engine fails the test instead of ending the process."""
    made = Cluster()
    services = ("verifier_service.service", "drafter_service.service")
    for module in (*services, "drafter_service.ngram_service"):
        monkeypatch.setattr(f"{module}.exit_when_engine_dies", made.engine_died)
    yield made
    await made.close()
    assert not made.deaths, f"an engine died: {made.deaths}"


@pytest.fixture(scope="session")
def tiny_pair(tmp_path_factory: pytest.TempPathFactory) -> TinyPair:
    return write_tiny_pair(tmp_path_factory.mktemp("tiny-pair"))


@pytest.fixture
def target(tiny_pair: TinyPair) -> LoadedModel:
    return load_model(str(tiny_pair.target), dtype="fp64")


@pytest.fixture
def draft(tiny_pair: TinyPair) -> LoadedModel:
    return load_model(str(tiny_pair.draft), dtype="fp64")


@pytest.fixture
def script() -> ScriptedModel:
    """The model behind `table_target` and `table_draft`; says its text by `continue_text`."""
    return ScriptedModel(seed=3)


@pytest.fixture
def table_target(script: ScriptedModel) -> LoadedModel:
    return load_table(agreeing(script), name="table-target")


@pytest.fixture
def table_draft(script: ScriptedModel) -> LoadedModel:
    return load_table(short_sighted(script), name="table-draft")
