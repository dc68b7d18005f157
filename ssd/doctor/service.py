"""A running service: does it answer, how far away and how far off in time are its parts."""

import time
from collections.abc import Iterator
from statistics import median

from ssd.client import Client
from ssd.core.errors import SsdError
from ssd.doctor.check import Check, fail, ok, warn
from ssd.v1 import registry_pb2
from ssd.wire.hello import PROTOCOL_VERSION

_CALLS = 20
_SLOW_MS = 5.0
_OFF_MS = 50.0


def service_checks(client: Client, *, is_expected: bool) -> Iterator[Check]:
    """What a coordinator and its workers say; `is_expected` makes its absence a failure."""
    try:
        status = client.status()
    except SsdError as error:
        advice = f"ssd serve, or name a coordinator with --address ({error})"
        absent = f"none answers at {client.address}"
        yield fail("coordinator", absent, advice) if is_expected else ok("coordinator", absent)
        return
    yield from _coordinator(client, client.address)
    yield from _workers(status)


def _coordinator(client: Client, address: str) -> Iterator[Check]:
    """Round trip, and the clock by the fastest of the calls, as NTP does."""
    samples = []
    for _ in range(_CALLS):
        sent = time.time_ns()
        there = client.status().unix_ns
        back = time.time_ns()
        samples.append(((back - sent) / 1e6, (there - (sent + back) / 2) / 1e6))
    trip_ms = median(trip for trip, _ in samples)
    found = f"{address}: round trip {trip_ms:.2f} ms"
    if trip_ms > _SLOW_MS:
        yield warn("coordinator", found, "a loaded machine, or a long way: look at both")
    else:
        yield ok("coordinator", found)
    off_ms = min(samples)[1]
    found = f"the coordinator's is {off_ms:+.2f} ms from ours"
    if abs(off_ms) > _OFF_MS:
        yield warn("clock", found, "synchronise both with NTP: logs and traces will not line up")
    else:
        yield ok("clock", found)


def _workers(status: registry_pb2.GetStatusResponse) -> Iterator[Check]:
    roles = {each.worker.role for each in status.workers}
    if registry_pb2.ROLE_VERIFIER not in roles:
        yield fail("verifiers", "no verifier is registered", "ssd place, or start one")
    if registry_pb2.ROLE_DRAFTER not in roles:
        yield warn(
            "drafters", "no drafter is registered", "texts come no faster than plain decoding"
        )
    for each in status.workers:
        yield _worker(each)
    digests = {each.worker.hello.vocabulary_digest for each in status.workers}
    if len(digests) > 1:
        yield warn("vocabularies", f"{len(digests)} different ones", "a pair must share one")
    elif status.workers:
        yield ok("vocabularies", "all workers have the same")


def _worker(each: registry_pb2.WorkerStatus) -> Check:
    worker = each.worker
    version = worker.hello.protocol_version
    if version != PROTOCOL_VERSION:
        words = f"speaks protocol {version}, we {PROTOCOL_VERSION}"
        return fail(worker.name, words, "run one release everywhere")
    if not each.is_up:
        return fail(worker.name, f"not used: {each.reason}", "mend that, or read its log")
    found = f"up at {worker.address}, {worker.hello.model_name} ({worker.hello.dtype})"
    if each.round_trip_ns:
        trip_ms, off_ms = each.round_trip_ns / 1e6, each.clock_offset_ns / 1e6
        found += f", round trip {trip_ms:.2f} ms, clock {off_ms:+.2f} ms from the coordinator's"
        if trip_ms > _SLOW_MS:
            return warn(worker.name, found, "every round pays for it: bring them closer")
    return ok(worker.name, found)
