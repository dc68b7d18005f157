import pytest

from ssd.cluster.workers import (
    PlacedWorker,
    WorkerSpec,
    bundles_for,
    check_devices,
    expect_labelled,
)
from ssd.core.errors import ConfigError

PAIR = [
    WorkerSpec("verifier-0", "tests.cluster.toy_actor:ToyActor"),
    WorkerSpec("drafter-0", "tests.cluster.toy_actor:ToyActor"),
]
TABLE = WorkerSpec("table-0", "tests.cluster.toy_actor:ToyActor", device="cpu")


def placed(name: str, node_id: str, device_id: str) -> PlacedWorker:
    return PlacedWorker(name, "127.0.0.1:1", node_id, device_id, pid=1)


def test_each_worker_takes_a_gpu_where_there_are_any() -> None:
    bundles = bundles_for(PAIR, [{"GPU": 2.0, "CPU": 8.0}], require_gpu=False)
    assert bundles == [{"GPU": 1.0}, {"GPU": 1.0}]


def test_each_worker_takes_a_cpu_where_there_is_no_gpu() -> None:
    assert bundles_for(PAIR, [{"CPU": 2.0}], require_gpu=False) == [{"CPU": 1.0}, {"CPU": 1.0}]


def test_a_worker_may_stay_on_the_cpu_beside_gpus() -> None:
    bundles = bundles_for([*PAIR, TABLE], [{"GPU": 2.0, "CPU": 1.0}], require_gpu=True)
    assert bundles == [{"GPU": 1.0}, {"GPU": 1.0}, {"CPU": 1.0}]


def test_two_workers_are_refused_on_one_gpu() -> None:
    with pytest.raises(ConfigError, match=r"2 workers \(verifier-0, drafter-0\) need a GPU each"):
        bundles_for(PAIR, [{"GPU": 1.0, "CPU": 8.0}], require_gpu=False)


def test_a_required_gpu_that_is_missing_is_refused() -> None:
    with pytest.raises(ConfigError, match="the Ray cluster has 0"):
        bundles_for(PAIR, [{"CPU": 8.0}], require_gpu=True)


def test_fractions_of_gpus_on_two_nodes_are_not_a_gpu() -> None:
    with pytest.raises(ConfigError, match="the Ray cluster has 1"):
        bundles_for(PAIR, [{"GPU": 1.5}, {"GPU": 0.5}], require_gpu=False)


def test_two_workers_are_refused_on_one_cpu() -> None:
    with pytest.raises(ConfigError, match="need a CPU each"):
        bundles_for(PAIR, [{"CPU": 1.0}], require_gpu=False)


def test_two_workers_of_one_name_are_refused() -> None:
    with pytest.raises(ConfigError, match="share a name"):
        bundles_for([PAIR[0], PAIR[0]], [{"CPU": 8.0}], require_gpu=False)


def test_device_zero_of_two_nodes_is_two_devices() -> None:
    check_devices([placed("verifier-0", "a", "cuda:0"), placed("drafter-0", "b", "cuda:0")])


def test_a_shared_device_is_refused_with_both_names() -> None:
    with pytest.raises(ConfigError, match="verifier-0 and drafter-0 share device cuda:0 of node a"):
        check_devices([placed("verifier-0", "a", "cuda:0"), placed("drafter-0", "a", "cuda:0")])


@pytest.mark.parametrize("actor_class", ["no_colon", "two:colons:here"])
def test_a_class_that_cannot_be_one_is_refused(actor_class: str) -> None:
    with pytest.raises(ValueError, match="module:Class"):
        WorkerSpec("verifier-0", actor_class)


LABELLED = [
    WorkerSpec("verifier-0", "tests.cluster.toy_actor:ToyActor", labels={"role": "verifier"}),
    WorkerSpec("drafter-0", "tests.cluster.toy_actor:ToyActor", labels={"role": "drafter"}),
]
VERIFIER_NODE = ({"role": "verifier", "zone": "a"}, {"GPU": 1.0, "CPU": 8.0})
DRAFTER_NODE = ({"role": "drafter"}, {"GPU": 1.0})
GPU_EACH = [{"GPU": 1.0}, {"GPU": 1.0}]


def test_a_node_of_each_role_is_enough() -> None:
    expect_labelled(LABELLED, GPU_EACH, [VERIFIER_NODE, DRAFTER_NODE])


def test_a_role_without_a_node_is_refused_by_its_label() -> None:
    words = r"\(drafter-0\) need a GPU each and what bears the Ray labels role=drafter has 0"
    with pytest.raises(ConfigError, match=words):
        expect_labelled(LABELLED, GPU_EACH, [VERIFIER_NODE, VERIFIER_NODE])


def test_workers_without_labels_go_anywhere() -> None:
    expect_labelled(PAIR, GPU_EACH, [VERIFIER_NODE])
