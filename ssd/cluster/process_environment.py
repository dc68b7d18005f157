"""Environment variables with which every process of the service starts.

libc, gRPC and OpenMP read them once, at the latest when they are loaded, so whoever starts a
process sets them: the launcher here, the images on Kubernetes (a test holds the two together). A
value of the user's own is kept.
"""

import os
from collections.abc import Mapping

PROCESS_ENVIRONMENT: Mapping[str, str] = {
    # Weights in huge pages: a core that streams them misses its TLB less, 4 to 7 % of a forward.
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
    # gRPC's threads of its own hand every message on twice; without them a round trip takes half
    # the time and CPU. A later gRPC that does not know these names ignores them.
    "GRPC_EXPERIMENTS": "-event_engine_client,-event_engine_listener",
    # Where an engine has several CPU threads, they spin for the next product (some 0.1 ms) and
    # leave the cores to the other engine between forwards.
    "GOMP_SPINCOUNT": "30000",
}


def process_environment() -> dict[str, str]:
    """What this process was started with, completed."""
    return {**PROCESS_ENVIRONMENT, **os.environ}
