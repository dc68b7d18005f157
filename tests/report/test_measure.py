"""A generation read with a clock that is set by hand."""

from collections.abc import Iterator

from ssd.client import Generation
from ssd.client.connection import Tries
from ssd.core.messages import FinishReason
from ssd.core.mode import Mode
from ssd.report.measure import read_run
from ssd.report.run_record import Request
from ssd.v1 import common_pb2, generation_pb2
from ssd.wire.round_codec import encode_round, encode_spans
from tests.report.synthetic_runs import growth_of, rounds_of

REQUEST = Request(Mode.SSD, 1.0, 7, "opening", "Once upon a time", 5)
ROUNDS = rounds_of(2)


def delta(text: str, *token_ids: int) -> generation_pb2.GenerateResponse:
    return generation_pb2.GenerateResponse(
        delta=generation_pb2.Delta(text=text, token_ids=token_ids)
    )


def complete() -> generation_pb2.GenerateResponse:
    message = generation_pb2.Complete(
        finish_reason=common_pb2.FINISH_REASON_LENGTH,
        mode=common_pb2.MODE_SSD,
        usage=generation_pb2.Usage(completion_tokens=5),
        rounds=[encode_round(each) for each in ROUNDS],
        growth=encode_spans(growth_of(ROUNDS)),
    )
    return generation_pb2.GenerateResponse(complete=message)


def test_the_request_asks_for_its_rounds() -> None:
    options = REQUEST.options
    assert (options.mode, options.temperature, options.seed) == (Mode.SSD, 1.0, 7)
    assert (options.max_tokens, options.include_rounds) == (5, True)


def test_a_run_holds_what_came_and_when() -> None:
    shown: list[str] = []
    clock: Iterator[float] = iter([0.25, 0.5, 1.0])
    responses = [delta("there", 1, 2), delta("", 3), delta(" lived", 4, 5), complete()]
    generation = Generation(lambda *_: iter(responses), Tries(max_retries=0, timeout_s=None))
    run = read_run(generation, REQUEST, show=shown.append, elapsed_s=lambda: next(clock))
    assert (run.text, run.token_ids) == ("there lived", (1, 2, 3, 4, 5))
    assert (run.first_token_s, run.last_token_s) == (0.25, 1.0)
    assert shown == ["there", "", " lived"]
    assert (run.rounds, run.growth) == (ROUNDS, growth_of(ROUNDS))
    assert run.finish_reason is FinishReason.LENGTH
