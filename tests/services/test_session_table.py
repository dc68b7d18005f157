"""The coordinator's table without a network: who runs, where, and what a client is told."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from coordinator.generate_call import GenerateCall
from coordinator.output_text import OutputText
from coordinator.request_telemetry import RequestTelemetry
from coordinator.response_writer import ResponseWriter
from coordinator.served_model import ServedModel
from coordinator.text_codec import TextCodec
from ssd.core.credit import Credit
from ssd.core.errors import Cancelled, NoCapacity, SessionConflict, Unavailable
from ssd.core.ids import Epoch, PrefixKey, SessionId
from ssd.core.keys import key_of
from ssd.core.messages import Close, Commit, Finished, FinishReason, Open
from ssd.core.stop_rules import StopRules
from ssd.telemetry.request_metrics import RequestMetrics, TableFacts
from ssd.v1 import generation_pb2
from tests.models.tiny_pair import byte_tokenizer
from tests.services.session_table_bench import (
    MODEL,
    PROMPT,
    Seat,
    admission,
    commit,
    ledger,
    make_table,
    refusal,
)


async def test_a_session_is_opened_where_the_fewest_are() -> None:
    table, seats = make_table(), [Seat("v0"), Seat("v1"), Seat("other", "another kind")]
    for seat in seats:
        table.seating.add(seat)
    async with table.admitted(admission("a"), "kind"), table.admitted(admission("b"), "kind"):
        assert [seat.kinds for seat in seats] == [["Open"], ["Open"], []]
    assert [seat.kinds for seat in seats] == [["Open", "Close"], ["Open", "Close"], []]


async def test_a_session_is_opened_where_credit_covers_it_and_the_fewest_are_of_anyones() -> None:
    table, seats = make_table(), [Seat("v0"), Seat("v1"), Seat("v2")]
    for seat in seats:
        table.seating.add(seat)
    seats[0].credit = Credit(sessions=4, slots=10)  # too few slots, and nobody there
    seats[1].credit = Credit(sessions=4, slots=1000, num_others=3)
    seats[2].credit = Credit(sessions=4, slots=1000, num_others=1)
    async with table.admitted(admission("a"), "kind"), table.admitted(admission("b"), "kind"):
        assert [seat.kinds for seat in seats] == [[], [], ["Open", "Open"]]
        assert seats[2].credit.sessions == 2
        assert seats[2].credit.slots < 1000


async def test_a_verifier_that_is_back_in_use_gets_who_waited_for_it() -> None:
    table, seat = make_table(), Seat("v0")
    table.seating.add(seat)
    table.seating.drain(seat, is_draining=True)
    async with table.admitted(admission("a"), "kind"):
        assert seat.kinds == []
        table.seating.drain(seat, is_draining=False)
        assert seat.kinds == ["Open"]


async def test_where_no_credit_covers_a_session_the_verifier_is_asked() -> None:
    table, seat = make_table(), Seat("v0")
    table.seating.add(seat)
    seat.credit = Credit(sessions=0, slots=0)
    async with table.admitted(admission("a"), "kind"):
        assert seat.kinds == ["Open"]


async def test_credit_said_before_an_opening_arrived_is_less_than_it_sounds() -> None:
    table, seat = make_table(), Seat("v0")
    table.seating.add(seat)
    seat.num_pings = 3
    async with table.admitted(admission("a"), "kind") as live:
        table.reports.take(commit(live, 7))
        said = Credit(sessions=4, slots=1000)
        table.reports.compare(seat, replace(ledger(live, 3), credit=said))
        assert seat.credit is not None
        assert seat.credit.sessions == 3
        table.reports.compare(seat, replace(ledger(live, 4, 7), credit=said))
        assert seat.credit == said


async def test_a_lost_seat_moves_its_sessions_with_what_is_committed() -> None:
    table, first, second = make_table(), Seat("v0"), Seat("v1")
    table.seating.add(first)
    async with table.admitted(admission(), "kind") as live:
        table.reports.take(commit(live, 7, 8))
        table.seating.add(second)
        table.seating.remove(first)
        (opening,) = second.orders
        assert isinstance(opening, Open)
        assert opening.token_ids == (*PROMPT, 7, 8)
        assert opening.epoch == 2
        late = Commit(SessionId("a"), Epoch(1), 5, key_of((*PROMPT, 7, 8)), (9,))
        table.reports.take(late)
        assert table.reports.num_stale == 1
        assert live.books.output_token_ids == (7, 8)


async def test_a_gap_in_the_commits_opens_the_session_anew_and_only_once() -> None:
    """The old session must not go on beside the new one, wherever that is."""
    table, seats = make_table(), [Seat("v0"), Seat("v1")]
    for seat in seats:
        table.seating.add(seat)
    async with table.admitted(admission(), "kind") as live:
        table.reports.take(Commit(SessionId("a"), live.books.epoch, 8, PrefixKey(1), (9,)))
        opened = [order for seat in seats for order in seat.orders if isinstance(order, Open)]
        closed = [order for seat in seats for order in seat.orders if isinstance(order, Close)]
        assert [order.epoch for order in opened] == [1, 2]
        assert [order.epoch for order in closed] == [1]


async def test_a_used_request_id_starts_above_its_old_epochs() -> None:
    """G4: verifiers refuse an epoch that is not newer, and remember it after the end."""
    table, seat = make_table(epoch_floor=100), Seat("v0")
    table.seating.add(seat)
    for _ in range(3):
        async with table.admitted(admission(), "kind"):
            pass
    epochs = [order.epoch for order in seat.orders if isinstance(order, Open)]
    assert epochs == [101, 102, 103]


async def test_an_id_in_use_is_refused() -> None:
    table = make_table()
    async with table.admitted(admission(), "kind"):
        with pytest.raises(SessionConflict, match="a is in use"):
            await table.admitted(admission(), "kind").__aenter__()


async def test_the_queue_is_first_come_first_served_and_bounded() -> None:
    table = make_table(max_sessions=1, max_queue=2)
    order: list[str] = []

    async def run(name: str) -> None:
        async with table.admitted(admission(name), "kind"):
            order.append(name)

    async with table.admitted(admission("first"), "kind"):
        waiting = []
        for name in ("b", "c"):
            waiting.append(asyncio.create_task(run(name)))
            await asyncio.sleep(0)
        with pytest.raises(NoCapacity, match="1 sessions run and 2 requests wait"):
            await run("d")
        assert order == []
    await asyncio.gather(*waiting)
    assert order == ["b", "c"]
    await run("e")
    assert not table.sessions


async def test_leaving_the_queue_gives_the_turn_on() -> None:
    """By a cancel, by a client that hangs up, and in the same instant as the turn came."""
    table = make_table(max_sessions=1)

    async def run(name: str) -> str:
        async with table.admitted(admission(name), "kind"):
            return name

    async with table.admitted(admission("first"), "kind"):
        waiting = [asyncio.create_task(run(name)) for name in ("b", "c", "d", "e")]
        await asyncio.sleep(0)
        table.cancel(SessionId("b"))
        waiting[1].cancel()
        await asyncio.wait(waiting[:2])
    table.cancel(SessionId("d"))  # whose turn has just come
    results = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(each) for each in results] == [Cancelled, asyncio.CancelledError, Cancelled, str]
    assert await run("f") == "f"


async def test_without_a_verifier_a_session_is_unavailable_after_its_patience() -> None:
    table, seat = make_table(reopen_s=0.05), Seat("v0")
    table.seating.add(seat)
    async with table.admitted(admission(), "kind") as live:
        await table.wait_for_change(live)
        table.seating.remove(seat)
        await table.wait_for_change(live)
        with pytest.raises(Unavailable, match=r"within 0\.05 s"):
            await table.wait_for_change(live)


async def test_a_text_that_the_books_show_complete_needs_no_verifier() -> None:
    """The verifier was lost between its last commit and the word that this was the last."""
    table, seat = make_table(), Seat("v0")
    table.seating.add(seat)
    async with table.admitted(admission(max_len=5), "kind") as live:
        table.reports.take(commit(live, 7, 8))
        table.seating.remove(seat)
        assert live.books.finish_reason is FinishReason.LENGTH


class _SlowClient:
    """Takes its time over a delta: meanwhile the rest of the text is committed."""

    def __init__(self, meanwhile: Any) -> None:
        self.responses: list[generation_pb2.GenerateResponse] = []
        self._meanwhile = meanwhile

    async def write(self, response: generation_pb2.GenerateResponse) -> None:
        self.responses.append(response)
        if len(self.responses) == 1:
            self._meanwhile()


async def test_tokens_that_come_while_a_client_reads_are_not_lost_at_the_end() -> None:
    table, seat = make_table(), Seat("v0")
    table.seating.add(seat)
    text = OutputText(TextCodec(byte_tokenizer().to_str()), StopRules())
    async with table.admitted(admission(max_len=7), "kind", text=text) as live:

        def finish() -> None:
            table.reports.take(commit(live, 8, 9))
            table.reports.take(commit(live, 10))
            end = Finished(SessionId("a"), live.books.epoch, 7, FinishReason.LENGTH)
            table.reports.take(end)

        table.reports.take(commit(live, 7))
        client = _SlowClient(finish)
        telemetry = RequestTelemetry(RequestMetrics(lambda: TableFacts(0, 0, 0, 0)))
        model = ServedModel(MODEL, TextCodec(byte_tokenizer().to_str()))
        writer = ResponseWriter(client, stalled_client_s=60.0)
        await GenerateCall(table, telemetry, model, writer).stream(live, 0)
    ids = [token_id for each in client.responses for token_id in each.delta.token_ids]
    assert ids == [7, 8, 9, 10]
    assert live.books.output_len == 4


async def test_a_full_verifier_is_asked_again_for_a_text_that_has_begun() -> None:
    table, seat = make_table(), Seat("v0")
    table.seating.add(seat)
    async with table.admitted(admission(), "kind") as live:
        table.reports.take(commit(live, 7))
        table.reports.take(refusal(live))
        assert live.error is None
        async with asyncio.timeout(5):
            while seat.kinds != ["Open", "Open"]:
                live.changed.clear()
                await live.changed.wait()
        table.reports.take(commit(live, 8))
        assert live.books.output_token_ids == (7, 8)


@pytest.mark.parametrize("kind", ["NoCapacity", "InvalidRequest"])
async def test_a_new_request_that_is_refused_fails_at_once(kind: str) -> None:
    table = make_table()
    table.seating.add(Seat("v0"))
    async with table.admitted(admission(), "kind") as live:
        table.reports.take(refusal(live, kind))
        assert type(live.error).__name__ == kind


async def test_a_begun_text_that_nobody_has_room_for_fails_in_the_end() -> None:
    table = make_table(reopen_s=0.0)
    table.seating.add(Seat("v0"))
    async with table.admitted(admission(), "kind") as live:
        table.reports.take(commit(live, 7))
        table.reports.take(refusal(live))
        assert isinstance(live.error, NoCapacity)


async def test_the_lowest_priority_number_goes_first_and_equals_in_order_of_arrival() -> None:
    table = make_table(max_sessions=1)
    order: list[str] = []

    async def run(name: str, priority: int) -> None:
        async with table.admitted(admission(name, priority=priority), "kind"):
            order.append(name)

    async with asyncio.TaskGroup() as group, table.admitted(admission(), "kind"):
        for name, priority in (("late", 5), ("first", 0), ("second", 0), ("urgent", -1)):
            group.create_task(run(name, priority))
        await asyncio.sleep(0.01)
        assert not order
    assert order == ["urgent", "first", "second", "late"]
