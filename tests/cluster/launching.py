"""A service as a process of its own, which the tests interrupt: `launching.py RUN_DIR`.

It says on its output how far it has come: `entered`, then `placed` with every process id, one line
each, and then it waits for its child like the real thing.
"""

import sys
from pathlib import Path

from ssd.cluster import Launcher, WorkerSpec

CHILD = "import signal, time; signal.signal(signal.SIGTERM, lambda *_: exit(7)); time.sleep(600)"


def main() -> None:
    try:
        serve(Path(sys.argv[1]))
    except KeyboardInterrupt:
        sys.exit(130)


def serve(run_dir: Path) -> None:
    toy = "tests.cluster.toy_actor:ToyActor"
    with Launcher(run_dir) as launcher:
        tell("entered")
        local_ray = launcher.start_ray(num_cpus=2, num_gpus=0)
        launcher.place([WorkerSpec("verifier-0", toy), WorkerSpec("drafter-0", toy)])
        child = launcher.start_child("coordinator", [sys.executable, "-c", CHILD])
        tell("placed", child.pid, *local_ray.process_ids())
        launcher.wait()


def tell(*words: object) -> None:
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
