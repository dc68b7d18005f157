"""The messages of a client's stream, made from the books."""

from collections.abc import Sequence

from coordinator.live_session import LiveSession
from coordinator.served_model import ServedModel
from ssd.core.logprobs import TokenLogprobs
from ssd.core.messages import FinishReason
from ssd.core.rounds import Lookup, RoundFigures, figures_of, shadow_figures_of
from ssd.v1 import generation_pb2
from ssd.wire.codec import FINISH_REASONS, MODES
from ssd.wire.round_codec import encode_round, encode_spans
from ssd.wire.sampling_codec import RULES


def prompt_response(
    text: str, token_ids: Sequence[int], logprobs: Sequence[TokenLogprobs]
) -> generation_pb2.GenerateResponse:
    """The prompt as the model was given it; its first token has no log-probability."""
    return generation_pb2.GenerateResponse(
        prompt=generation_pb2.Prompt(
            text=text, token_ids=token_ids, logprobs=_logprobs(token_ids[1:], logprobs)
        )
    )


def delta_response(
    index: int, text: str, token_ids: Sequence[int], logprobs: Sequence[TokenLogprobs] = ()
) -> generation_pb2.GenerateResponse:
    """What is new in one answer."""
    return generation_pb2.GenerateResponse(
        delta=generation_pb2.Delta(
            index=index, text=text, token_ids=token_ids, logprobs=_logprobs(token_ids, logprobs)
        )
    )


def _logprobs(
    token_ids: Sequence[int], logprobs: Sequence[TokenLogprobs]
) -> list[generation_pb2.TokenLogprob]:
    return [
        generation_pb2.TokenLogprob(
            token_id=token_id,
            logprob=each.logprob,
            top=[
                generation_pb2.TokenLogprob(token_id=other, logprob=logprob)
                for other, logprob in each.top
            ],
        )
        for token_id, each in zip(token_ids, logprobs, strict=False)  # empty where not wanted
    ]


def complete_response(
    request_id: str,
    answers: Sequence[LiveSession],
    model: ServedModel,
    *,
    with_rounds: bool,
) -> generation_pb2.GenerateResponse:
    """The last message: how every answer ended, and what they cost together."""
    first = answers[0].books
    choices = [_choice(index, live) for index, live in enumerate(answers)]
    complete = generation_pb2.Complete(
        request_id=request_id,
        finish_reason=choices[0].finish_reason,
        usage=generation_pb2.Usage(
            prompt_tokens=first.prompt_len,
            cached_prompt_tokens=min(choices[0].figures.num_cached, first.prompt_len),
            completion_tokens=sum(each.completion_tokens for each in choices),
        ),
        seed=choices[0].seed,
        mode=MODES[first.admission.mode],
        figures=choices[0].figures,
        timing=choices[0].timing,
        exactness=model.exactness_of(first.admission.params),
        rule=RULES[first.admission.params.rule],
        choices=choices if len(choices) > 1 else (),
        shadow=choices[0].shadow if choices[0].HasField("shadow") else None,
    )
    _copy_stop(choices[0], complete)
    if with_rounds:
        complete.rounds.extend(encode_round(each) for each in first.rounds)
        complete.growth.CopyFrom(encode_spans(first.growth))
    return generation_pb2.GenerateResponse(complete=complete)


def _choice(index: int, live: LiveSession) -> generation_pb2.Choice:
    books = live.books
    assert books.finish_reason is not None
    choice = generation_pb2.Choice(
        index=index,
        finish_reason=FINISH_REASONS[books.finish_reason],
        completion_tokens=books.output_len,
        seed=books.admission.params.seed,
        figures=_figures(figures_of(books.rounds, books.growth, num_tokens=books.output_len)),
        timing=_timing(live),
    )
    if (would_be := shadow_figures_of(books.rounds)) is not None:
        choice.shadow.CopyFrom(_figures(would_be))
    if live.text is not None and live.text.matched is not None:
        choice.stop_string = live.text.matched
    elif books.finish_reason is FinishReason.STOP:
        choice.stop_token_id = books.output_token_ids[-1]
    return choice


def _timing(live: LiveSession) -> generation_pb2.Timing:
    watch, num_later = live.watch, live.books.output_len - 1
    writing_ms = _milliseconds(watch.first_token_ns, watch.last_token_ns)
    return generation_pb2.Timing(
        queue_ms=_milliseconds(watch.received_ns, watch.turn_ns),
        time_to_first_token_ms=_milliseconds(watch.received_ns, watch.first_token_ns),
        time_per_output_token_ms=writing_ms / num_later if num_later > 0 else 0.0,
    )


def _milliseconds(start_ns: int | None, end_ns: int | None) -> float:
    return 0.0 if start_ns is None or end_ns is None else (end_ns - start_ns) / 1e6


def _copy_stop(choice: generation_pb2.Choice, complete: generation_pb2.Complete) -> None:
    match choice.WhichOneof("matched_stop"):
        case "stop_string":
            complete.stop_string = choice.stop_string
        case "stop_token_id":
            complete.stop_token_id = choice.stop_token_id


def _figures(figures: RoundFigures) -> generation_pb2.SpeculationFigures:
    return generation_pb2.SpeculationFigures(
        num_rounds=figures.num_rounds,
        num_proposed=figures.num_proposed,
        num_accepted=figures.num_accepted,
        num_tested=figures.num_tested,
        acceptance=figures.acceptance,
        tokens_per_round=figures.tokens_per_round,
        hit_rate=figures.hit_rate,
        num_hits=figures.num_hits,
        num_missed_absent=figures.misses[Lookup.MISS_ABSENT],
        num_missed_key=figures.misses[Lookup.MISS_KEY],
        num_missed_late=figures.misses[Lookup.MISS_LATE],
        verifier_busy=figures.busy,
        overlap=figures.overlap,
        useful_overlap=figures.useful_overlap,
        useful_share=figures.useful_share,
        num_cached=figures.num_cached,
        verify_ms=figures.verify_ms,
        wait_ms=figures.wait_ms,
        accepted_at_depth=figures.accepted_at_depth,
        plain_rounds={why.value: count for why, count in figures.plain_rounds.items()},
        drafters={
            kind.value: generation_pb2.DrafterFigures(
                num_proposed=each.num_proposed,
                num_accepted=each.num_accepted,
                num_paused_rounds=each.num_paused,
                num_probes=each.num_probes,
                why=each.why,
            )
            for kind, each in figures.drafters.items()
        },
        acceptance_at_depth=[each / figures.num_rounds for each in figures.accepted_at_depth],
    )
