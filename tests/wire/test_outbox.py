"""What waits for a stream: together, in order, bounded, and drained at the end."""

import asyncio

import pytest

from ssd.wire.outbox import Outbox, OutboxOverflow


async def taken(outbox: Outbox[int]) -> list[list[int]]:
    return [batch async for batch in outbox.batches()]


async def test_what_waits_leaves_together_in_order() -> None:
    outbox: Outbox[int] = Outbox(10)
    outbox.put([1, 2])
    outbox.put([3])
    outbox.close()
    assert await taken(outbox) == [[1, 2, 3]]


async def test_a_reader_is_woken_by_each_arrival() -> None:
    outbox: Outbox[int] = Outbox(10)
    reading = asyncio.create_task(taken(outbox))
    for number in range(3):
        await asyncio.sleep(0)
        outbox.put([number])
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    outbox.close()
    assert await reading == [[0], [1], [2]]


async def test_an_overflow_appends_nothing() -> None:
    outbox: Outbox[int] = Outbox(3)
    outbox.put([1, 2])
    with pytest.raises(OutboxOverflow, match="bound of 3"):
        outbox.put([3, 4])
    outbox.put([5])
    outbox.close()
    assert await taken(outbox) == [[1, 2, 5]]


async def test_the_bound_counts_what_waits_and_not_what_left() -> None:
    outbox: Outbox[int] = Outbox(1)
    batches = outbox.batches()
    for number in range(5):
        outbox.put([number])
        assert await anext(batches) == [number]


async def test_closing_an_empty_outbox_ends_its_reader() -> None:
    outbox: Outbox[int] = Outbox(1)
    reading = asyncio.create_task(taken(outbox))
    await asyncio.sleep(0)
    outbox.close()
    assert await reading == []


async def test_an_empty_put_wakes_nobody_for_nothing() -> None:
    outbox: Outbox[int] = Outbox(1)
    outbox.put([])
    outbox.close()
    assert await taken(outbox) == []
