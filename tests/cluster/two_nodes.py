"""Place two workers on a cluster of two nodes with one GPU each, and print where they stand.

A process of its own: `ray.cluster_utils.Cluster` starts Ray inside the one that uses it, and Ray
reads its token once.
"""

import json
import logging
import sys

from ray.cluster_utils import Cluster

from ssd.cluster import WorkerSpec, place, remove


def main() -> None:
    logging.disable(logging.WARNING)
    toy = "tests.cluster.toy_actor:ToyActor"
    workers = [WorkerSpec("verifier-0", toy), WorkerSpec("drafter-0", toy)]
    cluster = Cluster()
    try:
        for _ in range(2):
            cluster.add_node(num_cpus=1, num_gpus=1, object_store_memory=100_000_000)
        placed = place(workers, address=cluster.address, deadline_s=30)
        remove(address=cluster.address)
    finally:
        cluster.shutdown()
    devices = [(worker.node_id, worker.device_id) for worker in placed]
    sys.stdout.write(json.dumps(devices) + "\n")


if __name__ == "__main__":
    main()
