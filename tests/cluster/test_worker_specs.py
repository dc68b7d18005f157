from ssd.cluster.local_service import worker_specs
from ssd.config import load_config


def names_and_labels(**overrides: object) -> list[tuple[str, dict[str, str]]]:
    keys = {key.replace("__", "."): value for key, value in overrides.items()}
    config = load_config(file=None, environment={}, overrides=keys).config
    return [(spec.name, dict(spec.labels)) for spec in worker_specs(config)]


def test_a_pair_goes_anywhere_by_default() -> None:
    assert names_and_labels() == [("drafter-0", {}), ("verifier-0", {})]


def test_pairs_are_numbered() -> None:
    names = [name for name, _ in names_and_labels(cluster__pairs=2)]
    assert names == ["drafter-0", "verifier-0", "drafter-1", "verifier-1"]


def test_a_release_tells_two_sets_of_workers_apart() -> None:
    names = [name for name, _ in names_and_labels(cluster__release="v2")]
    assert names == ["v2-drafter-0", "v2-verifier-0"]


def test_workers_go_to_the_nodes_of_their_role() -> None:
    specs = dict(names_and_labels(cluster__role_label="ssd.dev/role"))
    assert specs == {
        "drafter-0": {"ssd.dev/role": "drafter"},
        "verifier-0": {"ssd.dev/role": "verifier"},
    }
