"""Sessions whose verifier is lost, cut off, full or wrong go on from what is committed."""

import asyncio

from coordinator.live_session import MoveReason
from ssd.core.ids import SessionId
from ssd.core.keys import key_of
from ssd.core.messages import Commit, Open, Resume
from tests.services.session_table_bench import (
    PROMPT,
    Seat,
    admission,
    commit,
    here,
    ledger,
    make_table,
    refusal,
)


async def test_a_cut_session_waits_for_its_verifier_and_is_resumed_there() -> None:
    table, first, spare = make_table(resume_s=5.0), Seat("v0"), Seat("v1")
    table.seating.add(first)
    async with table.admitted(admission(), "kind") as live:
        table.reports.take(commit(live, 7, 8))
        table.seating.add(spare)
        table.seating.remove(first)
        assert not spare.orders
        table.seating.add(first)
        order = first.orders[-1]
        assert isinstance(order, Resume)
        assert (order.epoch, order.have_len) == (1, 5)
        table.reports.take(refusal(live, "UnknownSession"))
        assert [type(each).__name__ for each in (*first.orders[2:], *spare.orders)] == ["Open"]
        assert live.books.epoch == 2


async def test_a_full_verifier_that_was_cut_off_is_asked_again_when_it_is_back() -> None:
    """Its session does not wait for a return any more: it was refused there meanwhile."""
    table, seat = make_table(resume_s=5.0), Seat("v0")
    table.seating.add(seat)
    async with table.admitted(admission(), "kind") as live:
        table.reports.take(commit(live, 7, 8))
        table.seating.remove(seat)
        table.seating.add(seat)
        table.reports.take(refusal(live, "UnknownSession"))
        table.reports.take(refusal(live))
        assert live.seat is None
        table.seating.remove(seat)
        await asyncio.sleep(0.6)  # until it was to be asked again
        num_orders = len(seat.orders)
        table.seating.add(seat)
        assert [type(each) for each in seat.orders[num_orders:]] == [Open]
        assert live.seat is seat


async def test_an_opening_that_came_again_after_the_end_opens_the_session_anew() -> None:
    """Its end was lost on the way, and the verifier refuses to start the same epoch twice."""
    table, seat = make_table(), Seat("v0")
    table.seating.add(seat)
    async with table.admitted(admission(), "kind") as live:
        table.reports.take(refusal(live, "SessionConflict"))
        assert live.error is None
        assert [type(each) for each in seat.orders] == [Open, Open]
        assert live.books.epoch == seat.orders[0].epoch + 1


async def test_a_session_that_waited_in_vain_moves_to_the_spare() -> None:
    table, first, spare = make_table(resume_s=0.05), Seat("v0"), Seat("v1")
    table.seating.add(first)
    async with table.admitted(admission(), "kind") as live:
        table.seating.add(spare)
        table.seating.remove(first)
        await table.wait_for_change(live)
        async with asyncio.timeout(5):
            await table.wait_for_change(live)
        assert spare.kinds == ["Open"]
        assert table.seating.moves == {"start": 1, "failover": 1}


async def test_a_verifier_that_is_gone_for_certain_is_not_waited_for() -> None:
    table, first, spare = make_table(resume_s=60.0), Seat("v0"), Seat("v1")
    table.seating.add(first)
    async with table.admitted(admission(), "kind"):
        table.seating.add(spare)
        table.seating.remove(first)
        table.seating.process_lost(first.instance_id)
        assert spare.kinds == ["Open"]


async def test_the_books_win_over_what_a_verifier_says_it_holds() -> None:
    table, seat = make_table(), Seat("v0")
    table.seating.add(seat)
    seat.num_pings = 3
    async with table.admitted(admission(), "kind") as live:
        table.reports.take(commit(live, 7))
        table.reports.compare(seat, ledger(live, 0))  # made before the opening arrived
        table.reports.compare(seat, ledger(live, 5, 7))
        assert seat.kinds == ["Open"]
        table.reports.compare(seat, ledger(live, 6, 7, 8))  # a commit was lost on its way
        assert seat.kinds == ["Open", "Resume"]
        table.reports.compare(seat, ledger(live, 7, 9))  # another text
        assert seat.kinds == ["Open", "Resume", "Close", "Open"]
        table.reports.compare(seat, ledger(live, 8))  # nothing
        assert seat.kinds[-2:] == ["Close", "Open"]
        assert table.seating.moves[MoveReason.LEDGER] == 2
    table.reports.compare(seat, ledger(live, 9, 7, epoch=3))  # it should be closed
    assert seat.kinds[-1] == "Close"


async def test_a_drained_verifier_gives_its_sessions_away_and_gets_none() -> None:
    table, first = make_table(), Seat("v0")
    table.seating.add(first)
    async with table.admitted(admission(), "kind") as live:
        assert table.seating.drain(first, is_draining=True) == 1, "nobody else can take it"
        table.reports.take(commit(live, 7))
        table.seating.drain(first, is_draining=False)
        second = Seat("v1")
        table.seating.add(second)
        assert table.seating.drain(first, is_draining=True) == 0
        assert first.kinds == ["Open", "Close"]
        assert second.kinds == ["Open"]
        async with table.admitted(admission("b"), "kind"):
            assert second.kinds == ["Open", "Open"]
        assert table.seating.moves[MoveReason.DRAIN] == 1


async def test_a_preempted_session_waits_for_room_for_as_long_as_it_takes() -> None:
    table, seat = make_table(reopen_s=0.0), Seat("v0")
    table.seating.add(seat)
    async with table.admitted(admission(), "kind") as live:
        table.reports.take(commit(live, 7))
        table.reports.take(refusal(live, "Preempted"))
        for _ in range(2):
            async with asyncio.timeout(5):
                while live.seat is None:
                    live.changed.clear()
                    await live.changed.wait()
            assert live.error is None
            table.reports.take(refusal(live, "NoCapacity"))
        assert table.seating.moves[MoveReason.PREEMPTION] == 2


async def test_the_request_that_ends_verifiers_is_found_and_the_others_finish() -> None:
    """A worker dies with all its sessions; after twice they run one at a time."""
    table = make_table()
    names = ("a", "b", "c")

    async def run(name: str) -> str:
        async with table.admitted(admission(name), "kind") as live:
            while live.error is None and not live.books.output_len:
                live.changed.clear()
                await live.changed.wait()
            return type(live.error).__name__ if live.error is not None else "served"

    running = [asyncio.create_task(run(name)) for name in names]
    await asyncio.sleep(0)
    for life in range(20):
        seat = Seat(f"life {life}")
        table.seating.add(seat)
        while (opened := here(table, seat)) and "b" not in opened:
            for name in opened:
                books = table.sessions[SessionId(name)].books
                said = Commit(SessionId(name), books.epoch, 3, key_of(PROMPT), (7,))
                table.reports.take(said)
            await asyncio.sleep(0)
        table.seating.remove(seat)
        await asyncio.sleep(0)
        if all(task.done() for task in running):
            break
    assert await asyncio.gather(*running) == ["served", "Poisoned", "served"]
