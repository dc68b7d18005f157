"""An engine that hangs is told from one that is idle, slow or was stopped with its process."""

import asyncio

from ssd.worker.stall_watch import Pulse, StallWatch, watch_for_stall


def stalled_after(*pulses: Pulse) -> float:
    watch = StallWatch()
    for pulse in pulses:
        watch.look(pulse, elapsed_s=1.0)
    return watch.stalled_s


def test_only_standing_still_with_work_counts() -> None:
    working, idle = Pulse(has_work=True, num_done=5), Pulse(has_work=False, num_done=5)
    assert stalled_after(working, working, working) == 2.0
    assert stalled_after(idle, idle, idle) == 0.0
    assert stalled_after(working, working, Pulse(has_work=True, num_done=6)) == 0.0
    assert stalled_after(working, working, idle, working) == 0.0


async def test_the_engine_that_hangs_is_found_among_those_that_work() -> None:
    turns = 0
    found: asyncio.Future[float] = asyncio.get_running_loop().create_future()

    def pulses() -> tuple[Pulse, ...]:
        nonlocal turns
        turns += 1
        return Pulse(has_work=True, num_done=turns), Pulse(has_work=True, num_done=7)

    watching = asyncio.create_task(watch_for_stall(pulses, 0.1, stalled=found.set_result))
    assert await asyncio.wait_for(found, 10) >= 0.1
    watching.cancel()
