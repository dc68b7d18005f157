import json
import os
import signal
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from ssd.cluster import LocalRay, WorkerSpec, place
from ssd.cluster.processes import wait_until
from ssd.core.errors import ConfigError, Unavailable

PAIR = [WorkerSpec(n, "tests.cluster.toy_actor:ToyActor") for n in ("verifier-0", "drafter-0")]


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LocalRay, LocalRay]]:
    """Two services of one user on one host; the first has one GPU in its books."""
    first = LocalRay.start(tmp_path_factory.mktemp("first"), num_cpus=2, num_gpus=1)
    second = LocalRay.start(tmp_path_factory.mktemp("second"), num_cpus=2, num_gpus=0)
    yield first, second
    first.stop()
    second.stop()


def directory_of(local_ray: LocalRay) -> Path:
    return local_ray.token_path.parent


def test_two_services_on_one_host_share_nothing(pair: tuple[LocalRay, LocalRay]) -> None:
    first, second = pair
    assert first.is_running
    assert second.is_running
    assert first.address != second.address
    assert first.token_path.read_text() != second.token_path.read_text()
    assert first.process_ids().isdisjoint(second.process_ids())


def test_one_gpu_for_two_workers_is_refused(pair: tuple[LocalRay, LocalRay]) -> None:
    with pytest.raises(ConfigError, match=r"2 workers .* and the Ray cluster has 1"):
        place(PAIR, address=pair[0].address, token_path=pair[0].token_path)


def test_the_token_and_the_state_are_private(pair: tuple[LocalRay, LocalRay]) -> None:
    token_path = pair[0].token_path
    assert stat.S_IMODE(token_path.stat().st_mode) == 0o600
    assert stat.S_IMODE(token_path.parent.stat().st_mode) == 0o700


def test_a_run_directory_holds_one_service(pair: tuple[LocalRay, LocalRay]) -> None:
    with pytest.raises(ConfigError, match="is running; end it with `ssd down`"):
        LocalRay.start(pair[0].run_dir)
    assert pair[0].is_running


def test_another_process_can_stop_it_and_the_other_ray_stays(
    pair: tuple[LocalRay, LocalRay],
) -> None:
    first, second = pair
    pids = first.process_ids()
    found = LocalRay.from_state(first.run_dir)
    assert found is not None
    assert (found.address, found.process_ids()) == (first.address, pids)
    os.kill(max(pids), signal.SIGSTOP)  # one that will not go by itself
    found.stop()
    assert not any(alive(pid) for pid in pids)
    assert not directory_of(first).exists()
    assert not first.run_dir.exists()
    assert second.is_running


def test_stopping_works_without_the_guard_and_twice(pair: tuple[LocalRay, LocalRay]) -> None:
    second = pair[1]
    pids = second.process_ids()
    os.kill(json.loads((second.run_dir / "ray.json").read_text())["pid"], signal.SIGKILL)
    second.stop()
    second.stop()
    assert wait_until(lambda: not any(alive(pid) for pid in pids), 0)


def test_a_ray_that_does_not_come_up_says_why_and_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="Ray did not start"):
        LocalRay.start(tmp_path, num_cpus=-1)
    assert not tmp_path.exists()


def test_a_damaged_state_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "ray.json").write_text("{")
    with pytest.raises(ConfigError, match=r"ray\.json is damaged"):
        LocalRay.from_state(tmp_path)


def test_a_process_of_that_id_but_of_other_files_is_left_alone(tmp_path: Path) -> None:
    state = f'{{"directory": "{tmp_path}/gone", "pid": {os.getsid(0)}, "address": null}}'
    (tmp_path / "ray.json").write_text(state)
    left = LocalRay.from_state(tmp_path)
    assert left is not None
    assert left.process_ids() == set()
    left.stop()
    assert not tmp_path.exists()


def alive(pid: int) -> bool:
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] != "Z"
