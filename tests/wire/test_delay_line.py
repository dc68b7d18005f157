"""What goes into a delay line comes out later, in order, and not much later."""

import asyncio
import time

from ssd.wire.delay_line import DelayLine


async def test_calls_come_in_order_and_none_too_soon() -> None:
    line = DelayLine(0.005)
    sent: list[float] = []
    came: list[tuple[int, float]] = []
    for number in range(20):
        sent.append(time.monotonic())
        line.put(lambda number=number: came.append((number, time.monotonic())))  # type: ignore[misc]
        await asyncio.sleep(0.001)
    line.close()
    await asyncio.sleep(0.1)
    assert [number for number, _ in came] == list(range(20))
    assert all(at - sent[number] >= 0.005 for number, at in came)


async def test_without_a_delay_nothing_waits() -> None:
    came: list[int] = []
    DelayLine(0.0).put(lambda: came.append(1))
    assert came == [1]


async def test_what_still_waits_when_it_is_closed_comes_before_the_end() -> None:
    line, came = DelayLine(0.01), []
    line.put(lambda: came.append(1))
    line.close()
    await asyncio.sleep(0.1)
    assert came == [1]
