from ssd.v1 import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class TokenIds(_message.Message):
    __slots__ = ("token_ids",)
    TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    token_ids: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, token_ids: _Optional[_Iterable[int]] = ...) -> None: ...

class ChatMessages(_message.Message):
    __slots__ = ("messages",)
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    messages: _containers.RepeatedCompositeFieldContainer[ChatMessage]
    def __init__(self, messages: _Optional[_Iterable[_Union[ChatMessage, _Mapping]]] = ...) -> None: ...

class ChatMessage(_message.Message):
    __slots__ = ("role", "content")
    ROLE_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    role: str
    content: str
    def __init__(self, role: _Optional[str] = ..., content: _Optional[str] = ...) -> None: ...

class GenerateRequest(_message.Message):
    __slots__ = ("text", "token_ids", "chat", "max_tokens", "temperature", "top_p", "top_k", "min_p", "seed", "mode", "request_id", "stop_token_ids", "ignore_eos", "include_rounds", "min_tokens", "repetition_penalty", "presence_penalty", "frequency_penalty", "logit_bias", "bad_words", "bad_token_ids", "stop", "include_stop", "n", "priority", "logprobs", "top_logprobs", "echo", "prompt_logprobs", "speculation", "rule", "resume_from")
    class LogitBiasEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: int
        value: float
        def __init__(self, key: _Optional[int] = ..., value: _Optional[float] = ...) -> None: ...
    TEXT_FIELD_NUMBER: _ClassVar[int]
    TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    CHAT_FIELD_NUMBER: _ClassVar[int]
    MAX_TOKENS_FIELD_NUMBER: _ClassVar[int]
    TEMPERATURE_FIELD_NUMBER: _ClassVar[int]
    TOP_P_FIELD_NUMBER: _ClassVar[int]
    TOP_K_FIELD_NUMBER: _ClassVar[int]
    MIN_P_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    STOP_TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    IGNORE_EOS_FIELD_NUMBER: _ClassVar[int]
    INCLUDE_ROUNDS_FIELD_NUMBER: _ClassVar[int]
    MIN_TOKENS_FIELD_NUMBER: _ClassVar[int]
    REPETITION_PENALTY_FIELD_NUMBER: _ClassVar[int]
    PRESENCE_PENALTY_FIELD_NUMBER: _ClassVar[int]
    FREQUENCY_PENALTY_FIELD_NUMBER: _ClassVar[int]
    LOGIT_BIAS_FIELD_NUMBER: _ClassVar[int]
    BAD_WORDS_FIELD_NUMBER: _ClassVar[int]
    BAD_TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    STOP_FIELD_NUMBER: _ClassVar[int]
    INCLUDE_STOP_FIELD_NUMBER: _ClassVar[int]
    N_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    LOGPROBS_FIELD_NUMBER: _ClassVar[int]
    TOP_LOGPROBS_FIELD_NUMBER: _ClassVar[int]
    ECHO_FIELD_NUMBER: _ClassVar[int]
    PROMPT_LOGPROBS_FIELD_NUMBER: _ClassVar[int]
    SPECULATION_FIELD_NUMBER: _ClassVar[int]
    RULE_FIELD_NUMBER: _ClassVar[int]
    RESUME_FROM_FIELD_NUMBER: _ClassVar[int]
    text: str
    token_ids: TokenIds
    chat: ChatMessages
    max_tokens: int
    temperature: float
    top_p: float
    top_k: int
    min_p: float
    seed: int
    mode: _common_pb2.Mode
    request_id: str
    stop_token_ids: _containers.RepeatedScalarFieldContainer[int]
    ignore_eos: bool
    include_rounds: bool
    min_tokens: int
    repetition_penalty: float
    presence_penalty: float
    frequency_penalty: float
    logit_bias: _containers.ScalarMap[int, float]
    bad_words: _containers.RepeatedScalarFieldContainer[str]
    bad_token_ids: _containers.RepeatedCompositeFieldContainer[TokenIds]
    stop: _containers.RepeatedScalarFieldContainer[str]
    include_stop: bool
    n: int
    priority: int
    logprobs: bool
    top_logprobs: int
    echo: bool
    prompt_logprobs: int
    speculation: _common_pb2.SpeculationLimits
    rule: _common_pb2.Rule
    resume_from: int
    def __init__(self, text: _Optional[str] = ..., token_ids: _Optional[_Union[TokenIds, _Mapping]] = ..., chat: _Optional[_Union[ChatMessages, _Mapping]] = ..., max_tokens: _Optional[int] = ..., temperature: _Optional[float] = ..., top_p: _Optional[float] = ..., top_k: _Optional[int] = ..., min_p: _Optional[float] = ..., seed: _Optional[int] = ..., mode: _Optional[_Union[_common_pb2.Mode, str]] = ..., request_id: _Optional[str] = ..., stop_token_ids: _Optional[_Iterable[int]] = ..., ignore_eos: _Optional[bool] = ..., include_rounds: _Optional[bool] = ..., min_tokens: _Optional[int] = ..., repetition_penalty: _Optional[float] = ..., presence_penalty: _Optional[float] = ..., frequency_penalty: _Optional[float] = ..., logit_bias: _Optional[_Mapping[int, float]] = ..., bad_words: _Optional[_Iterable[str]] = ..., bad_token_ids: _Optional[_Iterable[_Union[TokenIds, _Mapping]]] = ..., stop: _Optional[_Iterable[str]] = ..., include_stop: _Optional[bool] = ..., n: _Optional[int] = ..., priority: _Optional[int] = ..., logprobs: _Optional[bool] = ..., top_logprobs: _Optional[int] = ..., echo: _Optional[bool] = ..., prompt_logprobs: _Optional[int] = ..., speculation: _Optional[_Union[_common_pb2.SpeculationLimits, _Mapping]] = ..., rule: _Optional[_Union[_common_pb2.Rule, str]] = ..., resume_from: _Optional[int] = ...) -> None: ...

class GenerateResponse(_message.Message):
    __slots__ = ("delta", "complete", "prompt")
    DELTA_FIELD_NUMBER: _ClassVar[int]
    COMPLETE_FIELD_NUMBER: _ClassVar[int]
    PROMPT_FIELD_NUMBER: _ClassVar[int]
    delta: Delta
    complete: Complete
    prompt: Prompt
    def __init__(self, delta: _Optional[_Union[Delta, _Mapping]] = ..., complete: _Optional[_Union[Complete, _Mapping]] = ..., prompt: _Optional[_Union[Prompt, _Mapping]] = ...) -> None: ...

class Prompt(_message.Message):
    __slots__ = ("text", "token_ids", "logprobs")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    LOGPROBS_FIELD_NUMBER: _ClassVar[int]
    text: str
    token_ids: _containers.RepeatedScalarFieldContainer[int]
    logprobs: _containers.RepeatedCompositeFieldContainer[TokenLogprob]
    def __init__(self, text: _Optional[str] = ..., token_ids: _Optional[_Iterable[int]] = ..., logprobs: _Optional[_Iterable[_Union[TokenLogprob, _Mapping]]] = ...) -> None: ...

class TokenLogprob(_message.Message):
    __slots__ = ("token_id", "logprob", "top")
    TOKEN_ID_FIELD_NUMBER: _ClassVar[int]
    LOGPROB_FIELD_NUMBER: _ClassVar[int]
    TOP_FIELD_NUMBER: _ClassVar[int]
    token_id: int
    logprob: float
    top: _containers.RepeatedCompositeFieldContainer[TokenLogprob]
    def __init__(self, token_id: _Optional[int] = ..., logprob: _Optional[float] = ..., top: _Optional[_Iterable[_Union[TokenLogprob, _Mapping]]] = ...) -> None: ...

class Delta(_message.Message):
    __slots__ = ("text", "token_ids", "index", "logprobs")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    LOGPROBS_FIELD_NUMBER: _ClassVar[int]
    text: str
    token_ids: _containers.RepeatedScalarFieldContainer[int]
    index: int
    logprobs: _containers.RepeatedCompositeFieldContainer[TokenLogprob]
    def __init__(self, text: _Optional[str] = ..., token_ids: _Optional[_Iterable[int]] = ..., index: _Optional[int] = ..., logprobs: _Optional[_Iterable[_Union[TokenLogprob, _Mapping]]] = ...) -> None: ...

class Complete(_message.Message):
    __slots__ = ("request_id", "finish_reason", "usage", "seed", "mode", "figures", "rounds", "growth", "exactness", "stop_string", "stop_token_id", "timing", "choices", "rule", "shadow")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    FINISH_REASON_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    FIGURES_FIELD_NUMBER: _ClassVar[int]
    ROUNDS_FIELD_NUMBER: _ClassVar[int]
    GROWTH_FIELD_NUMBER: _ClassVar[int]
    EXACTNESS_FIELD_NUMBER: _ClassVar[int]
    STOP_STRING_FIELD_NUMBER: _ClassVar[int]
    STOP_TOKEN_ID_FIELD_NUMBER: _ClassVar[int]
    TIMING_FIELD_NUMBER: _ClassVar[int]
    CHOICES_FIELD_NUMBER: _ClassVar[int]
    RULE_FIELD_NUMBER: _ClassVar[int]
    SHADOW_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    finish_reason: _common_pb2.FinishReason
    usage: Usage
    seed: int
    mode: _common_pb2.Mode
    figures: SpeculationFigures
    rounds: _containers.RepeatedCompositeFieldContainer[_common_pb2.RoundRecord]
    growth: _common_pb2.GrowthSpans
    exactness: str
    stop_string: str
    stop_token_id: int
    timing: Timing
    choices: _containers.RepeatedCompositeFieldContainer[Choice]
    rule: _common_pb2.Rule
    shadow: SpeculationFigures
    def __init__(self, request_id: _Optional[str] = ..., finish_reason: _Optional[_Union[_common_pb2.FinishReason, str]] = ..., usage: _Optional[_Union[Usage, _Mapping]] = ..., seed: _Optional[int] = ..., mode: _Optional[_Union[_common_pb2.Mode, str]] = ..., figures: _Optional[_Union[SpeculationFigures, _Mapping]] = ..., rounds: _Optional[_Iterable[_Union[_common_pb2.RoundRecord, _Mapping]]] = ..., growth: _Optional[_Union[_common_pb2.GrowthSpans, _Mapping]] = ..., exactness: _Optional[str] = ..., stop_string: _Optional[str] = ..., stop_token_id: _Optional[int] = ..., timing: _Optional[_Union[Timing, _Mapping]] = ..., choices: _Optional[_Iterable[_Union[Choice, _Mapping]]] = ..., rule: _Optional[_Union[_common_pb2.Rule, str]] = ..., shadow: _Optional[_Union[SpeculationFigures, _Mapping]] = ...) -> None: ...

class Choice(_message.Message):
    __slots__ = ("index", "finish_reason", "stop_string", "stop_token_id", "completion_tokens", "seed", "figures", "timing", "shadow")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    FINISH_REASON_FIELD_NUMBER: _ClassVar[int]
    STOP_STRING_FIELD_NUMBER: _ClassVar[int]
    STOP_TOKEN_ID_FIELD_NUMBER: _ClassVar[int]
    COMPLETION_TOKENS_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    FIGURES_FIELD_NUMBER: _ClassVar[int]
    TIMING_FIELD_NUMBER: _ClassVar[int]
    SHADOW_FIELD_NUMBER: _ClassVar[int]
    index: int
    finish_reason: _common_pb2.FinishReason
    stop_string: str
    stop_token_id: int
    completion_tokens: int
    seed: int
    figures: SpeculationFigures
    timing: Timing
    shadow: SpeculationFigures
    def __init__(self, index: _Optional[int] = ..., finish_reason: _Optional[_Union[_common_pb2.FinishReason, str]] = ..., stop_string: _Optional[str] = ..., stop_token_id: _Optional[int] = ..., completion_tokens: _Optional[int] = ..., seed: _Optional[int] = ..., figures: _Optional[_Union[SpeculationFigures, _Mapping]] = ..., timing: _Optional[_Union[Timing, _Mapping]] = ..., shadow: _Optional[_Union[SpeculationFigures, _Mapping]] = ...) -> None: ...

class Timing(_message.Message):
    __slots__ = ("queue_ms", "time_to_first_token_ms", "time_per_output_token_ms")
    QUEUE_MS_FIELD_NUMBER: _ClassVar[int]
    TIME_TO_FIRST_TOKEN_MS_FIELD_NUMBER: _ClassVar[int]
    TIME_PER_OUTPUT_TOKEN_MS_FIELD_NUMBER: _ClassVar[int]
    queue_ms: float
    time_to_first_token_ms: float
    time_per_output_token_ms: float
    def __init__(self, queue_ms: _Optional[float] = ..., time_to_first_token_ms: _Optional[float] = ..., time_per_output_token_ms: _Optional[float] = ...) -> None: ...

class Usage(_message.Message):
    __slots__ = ("prompt_tokens", "completion_tokens", "cached_prompt_tokens")
    PROMPT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    COMPLETION_TOKENS_FIELD_NUMBER: _ClassVar[int]
    CACHED_PROMPT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    prompt_tokens: int
    completion_tokens: int
    cached_prompt_tokens: int
    def __init__(self, prompt_tokens: _Optional[int] = ..., completion_tokens: _Optional[int] = ..., cached_prompt_tokens: _Optional[int] = ...) -> None: ...

class SpeculationFigures(_message.Message):
    __slots__ = ("num_rounds", "num_proposed", "num_accepted", "num_tested", "acceptance", "tokens_per_round", "hit_rate", "num_hits", "num_missed_absent", "num_missed_key", "num_missed_late", "verifier_busy", "overlap", "useful_overlap", "verify_ms", "wait_ms", "accepted_at_depth", "useful_share", "acceptance_at_depth", "plain_rounds", "num_cached", "drafters")
    class PlainRoundsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    class DraftersEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: DrafterFigures
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[DrafterFigures, _Mapping]] = ...) -> None: ...
    NUM_ROUNDS_FIELD_NUMBER: _ClassVar[int]
    NUM_PROPOSED_FIELD_NUMBER: _ClassVar[int]
    NUM_ACCEPTED_FIELD_NUMBER: _ClassVar[int]
    NUM_TESTED_FIELD_NUMBER: _ClassVar[int]
    ACCEPTANCE_FIELD_NUMBER: _ClassVar[int]
    TOKENS_PER_ROUND_FIELD_NUMBER: _ClassVar[int]
    HIT_RATE_FIELD_NUMBER: _ClassVar[int]
    NUM_HITS_FIELD_NUMBER: _ClassVar[int]
    NUM_MISSED_ABSENT_FIELD_NUMBER: _ClassVar[int]
    NUM_MISSED_KEY_FIELD_NUMBER: _ClassVar[int]
    NUM_MISSED_LATE_FIELD_NUMBER: _ClassVar[int]
    VERIFIER_BUSY_FIELD_NUMBER: _ClassVar[int]
    OVERLAP_FIELD_NUMBER: _ClassVar[int]
    USEFUL_OVERLAP_FIELD_NUMBER: _ClassVar[int]
    VERIFY_MS_FIELD_NUMBER: _ClassVar[int]
    WAIT_MS_FIELD_NUMBER: _ClassVar[int]
    ACCEPTED_AT_DEPTH_FIELD_NUMBER: _ClassVar[int]
    USEFUL_SHARE_FIELD_NUMBER: _ClassVar[int]
    ACCEPTANCE_AT_DEPTH_FIELD_NUMBER: _ClassVar[int]
    PLAIN_ROUNDS_FIELD_NUMBER: _ClassVar[int]
    NUM_CACHED_FIELD_NUMBER: _ClassVar[int]
    DRAFTERS_FIELD_NUMBER: _ClassVar[int]
    num_rounds: int
    num_proposed: int
    num_accepted: int
    num_tested: int
    acceptance: float
    tokens_per_round: float
    hit_rate: float
    num_hits: int
    num_missed_absent: int
    num_missed_key: int
    num_missed_late: int
    verifier_busy: float
    overlap: float
    useful_overlap: float
    verify_ms: float
    wait_ms: float
    accepted_at_depth: _containers.RepeatedScalarFieldContainer[int]
    useful_share: float
    acceptance_at_depth: _containers.RepeatedScalarFieldContainer[float]
    plain_rounds: _containers.ScalarMap[str, int]
    num_cached: int
    drafters: _containers.MessageMap[str, DrafterFigures]
    def __init__(self, num_rounds: _Optional[int] = ..., num_proposed: _Optional[int] = ..., num_accepted: _Optional[int] = ..., num_tested: _Optional[int] = ..., acceptance: _Optional[float] = ..., tokens_per_round: _Optional[float] = ..., hit_rate: _Optional[float] = ..., num_hits: _Optional[int] = ..., num_missed_absent: _Optional[int] = ..., num_missed_key: _Optional[int] = ..., num_missed_late: _Optional[int] = ..., verifier_busy: _Optional[float] = ..., overlap: _Optional[float] = ..., useful_overlap: _Optional[float] = ..., verify_ms: _Optional[float] = ..., wait_ms: _Optional[float] = ..., accepted_at_depth: _Optional[_Iterable[int]] = ..., useful_share: _Optional[float] = ..., acceptance_at_depth: _Optional[_Iterable[float]] = ..., plain_rounds: _Optional[_Mapping[str, int]] = ..., num_cached: _Optional[int] = ..., drafters: _Optional[_Mapping[str, DrafterFigures]] = ...) -> None: ...

class DrafterFigures(_message.Message):
    __slots__ = ("num_proposed", "num_accepted", "num_paused_rounds", "num_probes", "why")
    NUM_PROPOSED_FIELD_NUMBER: _ClassVar[int]
    NUM_ACCEPTED_FIELD_NUMBER: _ClassVar[int]
    NUM_PAUSED_ROUNDS_FIELD_NUMBER: _ClassVar[int]
    NUM_PROBES_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    num_proposed: int
    num_accepted: int
    num_paused_rounds: int
    num_probes: int
    why: str
    def __init__(self, num_proposed: _Optional[int] = ..., num_accepted: _Optional[int] = ..., num_paused_rounds: _Optional[int] = ..., num_probes: _Optional[int] = ..., why: _Optional[str] = ...) -> None: ...

class CancelRequest(_message.Message):
    __slots__ = ("request_id",)
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    def __init__(self, request_id: _Optional[str] = ...) -> None: ...

class CancelResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetModelInfoRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetModelInfoResponse(_message.Message):
    __slots__ = ("model_name", "fingerprint", "dtype", "vocab_size", "context_len", "eos_token_ids", "default_mode", "allowed_modes", "default_rule", "exactness")
    MODEL_NAME_FIELD_NUMBER: _ClassVar[int]
    FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    DTYPE_FIELD_NUMBER: _ClassVar[int]
    VOCAB_SIZE_FIELD_NUMBER: _ClassVar[int]
    CONTEXT_LEN_FIELD_NUMBER: _ClassVar[int]
    EOS_TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    DEFAULT_MODE_FIELD_NUMBER: _ClassVar[int]
    ALLOWED_MODES_FIELD_NUMBER: _ClassVar[int]
    DEFAULT_RULE_FIELD_NUMBER: _ClassVar[int]
    EXACTNESS_FIELD_NUMBER: _ClassVar[int]
    model_name: str
    fingerprint: str
    dtype: str
    vocab_size: int
    context_len: int
    eos_token_ids: _containers.RepeatedScalarFieldContainer[int]
    default_mode: _common_pb2.Mode
    allowed_modes: _containers.RepeatedScalarFieldContainer[_common_pb2.Mode]
    default_rule: _common_pb2.Rule
    exactness: str
    def __init__(self, model_name: _Optional[str] = ..., fingerprint: _Optional[str] = ..., dtype: _Optional[str] = ..., vocab_size: _Optional[int] = ..., context_len: _Optional[int] = ..., eos_token_ids: _Optional[_Iterable[int]] = ..., default_mode: _Optional[_Union[_common_pb2.Mode, str]] = ..., allowed_modes: _Optional[_Iterable[_Union[_common_pb2.Mode, str]]] = ..., default_rule: _Optional[_Union[_common_pb2.Rule, str]] = ..., exactness: _Optional[str] = ...) -> None: ...

class TokenizeRequest(_message.Message):
    __slots__ = ("text", "chat")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    CHAT_FIELD_NUMBER: _ClassVar[int]
    text: str
    chat: ChatMessages
    def __init__(self, text: _Optional[str] = ..., chat: _Optional[_Union[ChatMessages, _Mapping]] = ...) -> None: ...

class TokenizeResponse(_message.Message):
    __slots__ = ("token_ids", "context_len")
    TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    CONTEXT_LEN_FIELD_NUMBER: _ClassVar[int]
    token_ids: _containers.RepeatedScalarFieldContainer[int]
    context_len: int
    def __init__(self, token_ids: _Optional[_Iterable[int]] = ..., context_len: _Optional[int] = ...) -> None: ...

class DetokenizeRequest(_message.Message):
    __slots__ = ("token_ids", "keep_special_tokens")
    TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    KEEP_SPECIAL_TOKENS_FIELD_NUMBER: _ClassVar[int]
    token_ids: _containers.RepeatedScalarFieldContainer[int]
    keep_special_tokens: bool
    def __init__(self, token_ids: _Optional[_Iterable[int]] = ..., keep_special_tokens: _Optional[bool] = ...) -> None: ...

class DetokenizeResponse(_message.Message):
    __slots__ = ("text",)
    TEXT_FIELD_NUMBER: _ClassVar[int]
    text: str
    def __init__(self, text: _Optional[str] = ...) -> None: ...
