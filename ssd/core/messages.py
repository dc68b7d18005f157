"""What the services tell each other about sessions, as values.

`ssd.wire.codec` turns these into protobuf and back; nothing further in sees the wire. Events and
commands of the core's state machines are these same values: a message is a fact on one side and an
order on the other.
"""

from dataclasses import dataclass, field
from enum import StrEnum

from ssd.core.expansion import Expansion
from ssd.core.features import Features
from ssd.core.ids import Epoch, PrefixKey, SessionId
from ssd.core.logprobs import LogprobsWanted, TokenLogprobs
from ssd.core.mode import Mode
from ssd.core.rounds import GrowthSpan, RoundRecord
from ssd.core.rule import Rule
from ssd.core.sampling_params import SamplingParams
from ssd.core.speculation_limits import SpeculationLimits


class FinishReason(StrEnum):
    """Why a session ended: a stop token, or the length limit."""

    STOP = "stop"
    LENGTH = "length"


@dataclass(frozen=True, slots=True)
class Open:
    """Start a session from a text: the prompt and whatever of the output is committed already.

    Admission, failover, restart and preemption are all this one message with a higher epoch.
    `max_len` bounds prompt plus output. `stop_token_ids` end the text when the target draws one.
    Texts share the KV of a common beginning where their `cache_salt` is the same; None shares none.
    """

    session_id: SessionId
    epoch: Epoch
    token_ids: tuple[int, ...]
    prompt_len: int
    max_len: int
    params: SamplingParams = field(default_factory=SamplingParams)
    stop_token_ids: frozenset[int] = frozenset()
    mode: Mode = Mode.SSD
    speculation: SpeculationLimits = field(default_factory=SpeculationLimits)
    logprobs: LogprobsWanted = field(default_factory=LogprobsWanted)
    traceparent: str = ""  # W3C trace context of the request; the core only passes it on
    cache_salt: str | None = ""


@dataclass(frozen=True, slots=True)
class Resume:
    """Go on with a session that still stands, after the stream was cut: the books have `have_len`
    tokens. What does not stand as it should is refused as an UnknownSession, and opened anew."""

    session_id: SessionId
    epoch: Epoch
    have_len: int


@dataclass(frozen=True, slots=True)
class Close:
    """Forget a session and free its KV."""

    session_id: SessionId
    epoch: Epoch


@dataclass(frozen=True, slots=True)
class Commit:
    """Tokens the target drew, following a text of `base_len` tokens whose key is `base_key`.

    Where they are wanted `logprobs` has an entry per token. `prompt_logprobs` comes with a text's
    first commit and has one for each prompt token but the first, of which nothing was expected.
    `features` are the target's own of these tokens, for drafters that need them.
    """

    session_id: SessionId
    epoch: Epoch
    base_len: int
    base_key: PrefixKey
    token_ids: tuple[int, ...]
    record: RoundRecord | None = None
    growth: tuple[GrowthSpan, ...] = ()
    logprobs: tuple[TokenLogprobs, ...] = ()
    prompt_logprobs: tuple[TokenLogprobs, ...] = ()
    features: Features | None = None


@dataclass(frozen=True, slots=True)
class Finished:
    """The text ended at `total_len` tokens; its last commit was sent before this."""

    session_id: SessionId
    epoch: Epoch
    total_len: int
    reason: FinishReason


@dataclass(frozen=True, slots=True)
class Refused:
    """The session cannot be opened or go on here; `kind` names an error of `ssd.core.errors`."""

    session_id: SessionId
    epoch: Epoch
    kind: str
    message: str


@dataclass(frozen=True, slots=True)
class Grow:
    """What a drafter found below the committed text of one session, since its last message.

    `is_exhausted` says that nothing more will come for the text of `base_len` tokens.
    """

    session_id: SessionId
    epoch: Epoch
    base_len: int
    expansions: tuple[Expansion, ...]
    is_exhausted: bool = False
    spans: tuple[GrowthSpan, ...] = ()


@dataclass(frozen=True, slots=True)
class Need:
    """The drafter misses committed tokens from `from_len` on; 0 asks for the session anew."""

    session_id: SessionId
    epoch: Epoch
    from_len: int


@dataclass(frozen=True, slots=True)
class Rates:
    """The verifier's counts of how a drafter's candidates fared (`ssd.core.edge_rates`)."""

    tests: tuple[float, ...]
    matches: tuple[float, ...]
    rule: Rule = Rule.COUPLED
