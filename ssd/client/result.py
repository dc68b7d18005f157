"""What comes back, and the check that it is whole."""

from collections.abc import Sequence
from dataclasses import dataclass

from ssd.core.errors import ProtocolError
from ssd.core.messages import FinishReason
from ssd.core.mode import Mode
from ssd.core.rounds import GrowthSpan, RoundRecord
from ssd.core.rule import Rule
from ssd.v1 import generation_pb2
from ssd.wire.codec import decode_finish_reason, decode_mode
from ssd.wire.round_codec import decode_round, decode_spans
from ssd.wire.sampling_codec import decode_rule


@dataclass(frozen=True, slots=True)
class Logprob:
    """A token's log-probability under the target, and the likeliest tokens in its place."""

    token_id: int
    logprob: float
    top: tuple[tuple[int, float], ...]


@dataclass(frozen=True, slots=True)
class Piece:
    """What came in one message; the text holds whole characters only.

    `index` says which of several answers it belongs to.
    """

    text: str
    token_ids: tuple[int, ...]
    index: int = 0
    logprobs: tuple[Logprob, ...] = ()


@dataclass(frozen=True, slots=True)
class PromptEcho:
    """The prompt as the model was given it; its first token has no log-probability."""

    text: str
    token_ids: tuple[int, ...]
    logprobs: tuple[Logprob, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """How one answer ended; `matched_stop` is the stop string or the stop token's id."""

    finish_reason: FinishReason
    matched_stop: str | int | None
    num_completion_tokens: int
    seed: int
    figures: generation_pb2.SpeculationFigures
    timing: generation_pb2.Timing
    shadow: generation_pb2.SpeculationFigures | None
    """What drafts would have done, in mode `shadow`."""


@dataclass(frozen=True, slots=True)
class Completion:
    """How a generation ended, and its figures (`ssd.core.rounds` defines the words).

    All fields but `num_completion_tokens` describe the first answer; `choices` has every one.
    """

    request_id: str
    finish_reason: FinishReason
    matched_stop: str | int | None
    num_prompt_tokens: int
    num_cached_prompt_tokens: int
    num_completion_tokens: int
    seed: int
    mode: Mode
    rule: Rule
    exactness: str
    figures: generation_pb2.SpeculationFigures
    timing: generation_pb2.Timing
    rounds: tuple[RoundRecord, ...]
    growth: tuple[GrowthSpan, ...]
    choices: tuple[Choice, ...]
    shadow: generation_pb2.SpeculationFigures | None = None
    """What drafts would have done, in mode `shadow`."""


class Reader:
    """Turns the responses of one call into pieces, and counts them."""

    def __init__(self) -> None:
        self.has_begun = False
        self.prompt: PromptEcho | None = None
        self._completion: Completion | None = None
        self._num_token_ids = 0

    @property
    def num_token_ids(self) -> int:
        """How many came so far."""
        return self._num_token_ids

    @property
    def completion(self) -> Completion:
        """Raises RuntimeError before the end."""
        if self._completion is None:
            raise RuntimeError("the generation has not been read to its end")
        return self._completion

    def take(self, response: generation_pb2.GenerateResponse) -> Piece | None:
        """The piece in a response, if it has one.

        Raises:
            ProtocolError: the server counts other tokens than those that came.
        """
        self.has_begun = True
        match response.WhichOneof("event"):
            case "delta":
                piece = _piece(response.delta)
                self._num_token_ids += len(piece.token_ids)
                return piece
            case "prompt":
                self.prompt = PromptEcho(
                    response.prompt.text,
                    tuple(response.prompt.token_ids),
                    _logprobs(response.prompt.logprobs),
                )
            case "complete":
                self._complete(response.complete)
        return None

    def check_end(self) -> None:
        """Raises ProtocolError when the stream ended without its last message."""
        if self._completion is None:
            raise ProtocolError("the stream ended without a complete message")

    def _complete(self, message: generation_pb2.Complete) -> None:
        if message.usage.completion_tokens != self._num_token_ids:
            raise ProtocolError(
                f"{self._num_token_ids} tokens came, and the server says that it sent "
                f"{message.usage.completion_tokens}"
            )
        self._completion = _completion(message)


def _piece(delta: generation_pb2.Delta) -> Piece:
    return Piece(delta.text, tuple(delta.token_ids), delta.index, _logprobs(delta.logprobs))


def _logprobs(entries: Sequence[generation_pb2.TokenLogprob]) -> tuple[Logprob, ...]:
    return tuple(
        Logprob(each.token_id, each.logprob, tuple((top.token_id, top.logprob) for top in each.top))
        for each in entries
    )


def _matched_stop(message: generation_pb2.Complete | generation_pb2.Choice) -> str | int | None:
    match message.WhichOneof("matched_stop"):
        case "stop_string":
            return message.stop_string
        case "stop_token_id":
            return message.stop_token_id
    return None


def _choice(message: generation_pb2.Choice) -> Choice:
    return Choice(
        finish_reason=decode_finish_reason(message.finish_reason),
        matched_stop=_matched_stop(message),
        num_completion_tokens=message.completion_tokens,
        seed=message.seed,
        figures=message.figures,
        timing=message.timing,
        shadow=_shadow(message),
    )


def _shadow(
    message: generation_pb2.Complete | generation_pb2.Choice,
) -> generation_pb2.SpeculationFigures | None:
    return message.shadow if message.HasField("shadow") else None


def _completion(message: generation_pb2.Complete) -> Completion:
    only = Choice(
        finish_reason=decode_finish_reason(message.finish_reason),
        matched_stop=_matched_stop(message),
        num_completion_tokens=message.usage.completion_tokens,
        seed=message.seed,
        figures=message.figures,
        timing=message.timing,
        shadow=_shadow(message),
    )
    return Completion(
        request_id=message.request_id,
        finish_reason=only.finish_reason,
        matched_stop=only.matched_stop,
        num_prompt_tokens=message.usage.prompt_tokens,
        num_cached_prompt_tokens=message.usage.cached_prompt_tokens,
        num_completion_tokens=message.usage.completion_tokens,
        seed=message.seed,
        mode=decode_mode(message.mode),
        rule=decode_rule(message.rule),
        exactness=message.exactness,
        figures=message.figures,
        timing=message.timing,
        rounds=tuple(decode_round(each) for each in message.rounds),
        growth=decode_spans(message.growth),
        choices=tuple(_choice(each) for each in message.choices) or (only,),
        shadow=only.shadow,
    )
