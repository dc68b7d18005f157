"""What is measured before a worker serves is measured as its engine will run."""

import os
import threading
from pathlib import Path

import pytest
import torch

from ssd.core.cost_model import ForwardSize
from ssd.engine.engine_thread import run_like_engine
from ssd.engine.loading import LoadedModel, load_model
from ssd.worker.warm_up import measure_forwards, measured_cost
from tests.engine.tiny_models import save_tiny_model


@pytest.fixture(scope="module")
def mixture(tmp_path_factory: pytest.TempPathFactory) -> LoadedModel:
    return load_model(str(save_tiny_model(tmp_path_factory.mktemp("mixture"), "mixtral")))


def test_rows_and_length_are_measured(mixture: LoadedModel) -> None:
    sizes = [size for size, _ in measure_forwards(mixture)]
    assert [size.rows for size in sizes] == [1, 2, 4, 8, 12, 16, 24, 32, 1, 8]
    assert sizes[-1] == ForwardSize(8, 8 * mixture.context_len)
    assert mixture.runner.kv_store.num_sessions == 0  # type: ignore[attr-defined]


def test_the_cost_of_a_mixture_counts_its_experts(mixture: LoadedModel) -> None:
    assert mixture.experts is not None
    assert (mixture.experts.count, mixture.experts.per_row) == (4, 2)
    assert measured_cost(mixture).forward_s(8) > 0.0


def test_a_dense_model_has_no_experts(tmp_path: Path) -> None:
    assert load_model(str(save_tiny_model(tmp_path))).experts is None


def test_a_short_context_is_measured_without_a_long_text(tmp_path: Path) -> None:
    model = load_model(str(save_tiny_model(tmp_path, max_position_embeddings=20)))
    assert [size.rows for size, _ in measure_forwards(model)] == [1, 2, 4, 8, 12, 16]


def test_it_runs_where_the_engine_will() -> None:
    core = max(os.sched_getaffinity(0))
    before = os.sched_getaffinity(0), torch.get_num_threads()

    def work() -> tuple[set[int], int, int]:
        return os.sched_getaffinity(0), torch.get_num_threads(), threading.get_ident()

    cores, num_threads, thread = run_like_engine(work, core=core, num_threads=1)
    assert (cores, num_threads) == ({core}, 1)
    assert thread != threading.get_ident()
    assert (os.sched_getaffinity(0), torch.get_num_threads()) == before


def test_what_goes_wrong_there_is_raised_here() -> None:
    with pytest.raises(ZeroDivisionError):
        run_like_engine(lambda: 1 // 0, core=None, num_threads=1)


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="cores can't be asked for here")
def test_work_of_several_threads_is_bound_to_no_core() -> None:
    core = min(os.sched_getaffinity(0))
    found = run_like_engine(lambda: os.sched_getaffinity(0), core=core, num_threads=2)
    assert found == os.sched_getaffinity(0)
