"""What a client may ask for, and the message that asks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ssd.core.errors import InvalidRequest
from ssd.core.mode import Mode
from ssd.core.rule import Rule
from ssd.core.speculation_limits import SpeculationLimits
from ssd.v1 import generation_pb2
from ssd.wire.codec import MODES
from ssd.wire.logprob_codec import encode_limits
from ssd.wire.sampling_codec import RULES


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a conversation; the role is such as system, user or assistant."""

    role: str
    content: str


Prompt = str | Sequence[int] | Sequence[Message]
"""A text, token ids, or a conversation for the model's chat template."""


@dataclass(frozen=True, slots=True)
class Options:
    """How to generate; None leaves a value to the server. docs/api.md has every limit.

    `timeout_s` is for the whole generation, tries included.
    """

    max_tokens: int | None = None
    min_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    repetition_penalty: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    logit_bias: Mapping[int, float] = field(default_factory=dict)
    bad_words: tuple[str, ...] = ()
    bad_token_ids: tuple[tuple[int, ...], ...] = ()
    stop: tuple[str, ...] = ()
    stop_token_ids: tuple[int, ...] = ()
    include_stop: bool = False
    ignore_eos: bool = False
    seed: int | None = None
    n: int | None = None
    logprobs: bool = False
    top_logprobs: int | None = None
    echo: bool = False
    prompt_logprobs: int | None = None
    mode: Mode | None = None
    rule: Rule | None = None
    speculation: SpeculationLimits = field(default_factory=SpeculationLimits)
    priority: int | None = None
    request_id: str | None = None
    include_rounds: bool = False
    timeout_s: float | None = None
    traceparent: str | None = None
    """W3C trace context that the request's spans continue."""
    resume_s: float = 0.0
    """Seconds for which a generation whose stream broke is tried again where it stood."""

    @property
    def metadata(self) -> tuple[tuple[str, str], ...]:
        """What goes beside the message."""
        return () if self.traceparent is None else (("traceparent", self.traceparent),)


def build_request(prompt: Prompt, options: Options) -> generation_pb2.GenerateRequest:
    """Raises InvalidRequest when a number does not fit its field."""
    try:
        request = generation_pb2.GenerateRequest(
            max_tokens=options.max_tokens,
            min_tokens=options.min_tokens,
            temperature=options.temperature,
            top_p=options.top_p,
            top_k=options.top_k,
            min_p=options.min_p,
            repetition_penalty=options.repetition_penalty,
            presence_penalty=options.presence_penalty,
            frequency_penalty=options.frequency_penalty,
            logit_bias=options.logit_bias,
            bad_words=options.bad_words,
            bad_token_ids=[
                generation_pb2.TokenIds(token_ids=each) for each in options.bad_token_ids
            ],
            stop=options.stop,
            stop_token_ids=options.stop_token_ids,
            include_stop=options.include_stop,
            ignore_eos=options.ignore_eos,
            seed=options.seed,
            n=options.n,
            logprobs=options.logprobs,
            top_logprobs=options.top_logprobs,
            echo=options.echo,
            prompt_logprobs=options.prompt_logprobs,
            mode=MODES[options.mode] if options.mode is not None else None,
            rule=RULES[options.rule] if options.rule is not None else None,
            speculation=encode_limits(options.speculation),
            priority=options.priority,
            request_id=options.request_id,
            include_rounds=options.include_rounds,
        )
        _set_prompt(request, prompt)
    except ValueError as error:  # a number that its field cannot hold
        raise InvalidRequest(str(error)) from error
    return request


def chat_messages(conversation: Sequence[Message]) -> generation_pb2.ChatMessages:
    return generation_pb2.ChatMessages(
        messages=[
            generation_pb2.ChatMessage(role=each.role, content=each.content)
            for each in conversation
        ]
    )


def is_conversation(prompt: Prompt) -> bool:
    return not isinstance(prompt, str) and any(isinstance(each, Message) for each in prompt)


def _set_prompt(request: generation_pb2.GenerateRequest, prompt: Prompt) -> None:
    if isinstance(prompt, str):
        request.text = prompt
    elif is_conversation(prompt):
        request.chat.CopyFrom(chat_messages([each for each in prompt if isinstance(each, Message)]))
    else:
        request.token_ids.token_ids.extend(each for each in prompt if isinstance(each, int))
