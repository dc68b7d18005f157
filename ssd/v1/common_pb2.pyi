from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Mode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    MODE_UNSPECIFIED: _ClassVar[Mode]
    MODE_SSD: _ClassVar[Mode]
    MODE_SD: _ClassVar[Mode]
    MODE_AR: _ClassVar[Mode]
    MODE_SHADOW: _ClassVar[Mode]

class Rule(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    RULE_UNSPECIFIED: _ClassVar[Rule]
    RULE_COUPLED: _ClassVar[Rule]
    RULE_RATIO: _ClassVar[Rule]

class FinishReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    FINISH_REASON_UNSPECIFIED: _ClassVar[FinishReason]
    FINISH_REASON_STOP: _ClassVar[FinishReason]
    FINISH_REASON_LENGTH: _ClassVar[FinishReason]

class Lookup(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    LOOKUP_UNSPECIFIED: _ClassVar[Lookup]
    LOOKUP_HIT: _ClassVar[Lookup]
    LOOKUP_MISS_ABSENT: _ClassVar[Lookup]
    LOOKUP_MISS_KEY: _ClassVar[Lookup]
    LOOKUP_MISS_LATE: _ClassVar[Lookup]
    LOOKUP_LAST: _ClassVar[Lookup]

class DrafterKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DRAFTER_KIND_UNSPECIFIED: _ClassVar[DrafterKind]
    DRAFTER_KIND_MODEL: _ClassVar[DrafterKind]
    DRAFTER_KIND_NGRAM: _ClassVar[DrafterKind]
    DRAFTER_KIND_SELF: _ClassVar[DrafterKind]

class DrafterState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DRAFTER_STATE_UNSPECIFIED: _ClassVar[DrafterState]
    DRAFTER_STATE_ACTIVE: _ClassVar[DrafterState]
    DRAFTER_STATE_PAUSED: _ClassVar[DrafterState]
    DRAFTER_STATE_PROBED: _ClassVar[DrafterState]

class WhyPlain(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    WHY_PLAIN_UNSPECIFIED: _ClassVar[WhyPlain]
    WHY_PLAIN_MODE: _ClassVar[WhyPlain]
    WHY_PLAIN_NO_DRAFTER: _ClassVar[WhyPlain]
    WHY_PLAIN_NOT_READY: _ClassVar[WhyPlain]
    WHY_PLAIN_TOO_DEAR: _ClassVar[WhyPlain]
    WHY_PLAIN_LAST_TOKEN: _ClassVar[WhyPlain]
    WHY_PLAIN_PROBE: _ClassVar[WhyPlain]
    WHY_PLAIN_PAUSED: _ClassVar[WhyPlain]
MODE_UNSPECIFIED: Mode
MODE_SSD: Mode
MODE_SD: Mode
MODE_AR: Mode
MODE_SHADOW: Mode
RULE_UNSPECIFIED: Rule
RULE_COUPLED: Rule
RULE_RATIO: Rule
FINISH_REASON_UNSPECIFIED: FinishReason
FINISH_REASON_STOP: FinishReason
FINISH_REASON_LENGTH: FinishReason
LOOKUP_UNSPECIFIED: Lookup
LOOKUP_HIT: Lookup
LOOKUP_MISS_ABSENT: Lookup
LOOKUP_MISS_KEY: Lookup
LOOKUP_MISS_LATE: Lookup
LOOKUP_LAST: Lookup
DRAFTER_KIND_UNSPECIFIED: DrafterKind
DRAFTER_KIND_MODEL: DrafterKind
DRAFTER_KIND_NGRAM: DrafterKind
DRAFTER_KIND_SELF: DrafterKind
DRAFTER_STATE_UNSPECIFIED: DrafterState
DRAFTER_STATE_ACTIVE: DrafterState
DRAFTER_STATE_PAUSED: DrafterState
DRAFTER_STATE_PROBED: DrafterState
WHY_PLAIN_UNSPECIFIED: WhyPlain
WHY_PLAIN_MODE: WhyPlain
WHY_PLAIN_NO_DRAFTER: WhyPlain
WHY_PLAIN_NOT_READY: WhyPlain
WHY_PLAIN_TOO_DEAR: WhyPlain
WHY_PLAIN_LAST_TOKEN: WhyPlain
WHY_PLAIN_PROBE: WhyPlain
WHY_PLAIN_PAUSED: WhyPlain

class Hello(_message.Message):
    __slots__ = ("protocol_version", "instance_id", "model_name", "fingerprint", "vocabulary_digest", "special_digest", "vocab_size", "context_len", "eos_token_ids", "dtype", "drafter")
    PROTOCOL_VERSION_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    MODEL_NAME_FIELD_NUMBER: _ClassVar[int]
    FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    VOCABULARY_DIGEST_FIELD_NUMBER: _ClassVar[int]
    SPECIAL_DIGEST_FIELD_NUMBER: _ClassVar[int]
    VOCAB_SIZE_FIELD_NUMBER: _ClassVar[int]
    CONTEXT_LEN_FIELD_NUMBER: _ClassVar[int]
    EOS_TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    DTYPE_FIELD_NUMBER: _ClassVar[int]
    DRAFTER_FIELD_NUMBER: _ClassVar[int]
    protocol_version: int
    instance_id: str
    model_name: str
    fingerprint: str
    vocabulary_digest: str
    special_digest: str
    vocab_size: int
    context_len: int
    eos_token_ids: _containers.RepeatedScalarFieldContainer[int]
    dtype: str
    drafter: DrafterTraits
    def __init__(self, protocol_version: _Optional[int] = ..., instance_id: _Optional[str] = ..., model_name: _Optional[str] = ..., fingerprint: _Optional[str] = ..., vocabulary_digest: _Optional[str] = ..., special_digest: _Optional[str] = ..., vocab_size: _Optional[int] = ..., context_len: _Optional[int] = ..., eos_token_ids: _Optional[_Iterable[int]] = ..., dtype: _Optional[str] = ..., drafter: _Optional[_Union[DrafterTraits, _Mapping]] = ...) -> None: ...

class DrafterTraits(_message.Message):
    __slots__ = ("kind", "gives_logits", "branches", "needs_features", "maps_vocabulary")
    KIND_FIELD_NUMBER: _ClassVar[int]
    GIVES_LOGITS_FIELD_NUMBER: _ClassVar[int]
    BRANCHES_FIELD_NUMBER: _ClassVar[int]
    NEEDS_FEATURES_FIELD_NUMBER: _ClassVar[int]
    MAPS_VOCABULARY_FIELD_NUMBER: _ClassVar[int]
    kind: str
    gives_logits: bool
    branches: bool
    needs_features: bool
    maps_vocabulary: bool
    def __init__(self, kind: _Optional[str] = ..., gives_logits: _Optional[bool] = ..., branches: _Optional[bool] = ..., needs_features: _Optional[bool] = ..., maps_vocabulary: _Optional[bool] = ...) -> None: ...

class Tensor(_message.Message):
    __slots__ = ("shape", "dtype", "data")
    SHAPE_FIELD_NUMBER: _ClassVar[int]
    DTYPE_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    shape: _containers.RepeatedScalarFieldContainer[int]
    dtype: str
    data: bytes
    def __init__(self, shape: _Optional[_Iterable[int]] = ..., dtype: _Optional[str] = ..., data: _Optional[bytes] = ...) -> None: ...

class Sampling(_message.Message):
    __slots__ = ("temperature", "top_k", "top_p", "min_p", "seed", "repetition_penalty", "presence_penalty", "frequency_penalty", "biased_ids", "biases", "banned_token_ids", "banned_lens", "min_tokens", "end_token_ids", "rule")
    TEMPERATURE_FIELD_NUMBER: _ClassVar[int]
    TOP_K_FIELD_NUMBER: _ClassVar[int]
    TOP_P_FIELD_NUMBER: _ClassVar[int]
    MIN_P_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    REPETITION_PENALTY_FIELD_NUMBER: _ClassVar[int]
    PRESENCE_PENALTY_FIELD_NUMBER: _ClassVar[int]
    FREQUENCY_PENALTY_FIELD_NUMBER: _ClassVar[int]
    BIASED_IDS_FIELD_NUMBER: _ClassVar[int]
    BIASES_FIELD_NUMBER: _ClassVar[int]
    BANNED_TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    BANNED_LENS_FIELD_NUMBER: _ClassVar[int]
    MIN_TOKENS_FIELD_NUMBER: _ClassVar[int]
    END_TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    RULE_FIELD_NUMBER: _ClassVar[int]
    temperature: float
    top_k: int
    top_p: float
    min_p: float
    seed: int
    repetition_penalty: float
    presence_penalty: float
    frequency_penalty: float
    biased_ids: _containers.RepeatedScalarFieldContainer[int]
    biases: _containers.RepeatedScalarFieldContainer[float]
    banned_token_ids: _containers.RepeatedScalarFieldContainer[int]
    banned_lens: _containers.RepeatedScalarFieldContainer[int]
    min_tokens: int
    end_token_ids: _containers.RepeatedScalarFieldContainer[int]
    rule: Rule
    def __init__(self, temperature: _Optional[float] = ..., top_k: _Optional[int] = ..., top_p: _Optional[float] = ..., min_p: _Optional[float] = ..., seed: _Optional[int] = ..., repetition_penalty: _Optional[float] = ..., presence_penalty: _Optional[float] = ..., frequency_penalty: _Optional[float] = ..., biased_ids: _Optional[_Iterable[int]] = ..., biases: _Optional[_Iterable[float]] = ..., banned_token_ids: _Optional[_Iterable[int]] = ..., banned_lens: _Optional[_Iterable[int]] = ..., min_tokens: _Optional[int] = ..., end_token_ids: _Optional[_Iterable[int]] = ..., rule: _Optional[_Union[Rule, str]] = ...) -> None: ...

class SpeculationLimits(_message.Message):
    __slots__ = ("max_nodes", "max_depth", "drafters")
    MAX_NODES_FIELD_NUMBER: _ClassVar[int]
    MAX_DEPTH_FIELD_NUMBER: _ClassVar[int]
    DRAFTERS_FIELD_NUMBER: _ClassVar[int]
    max_nodes: int
    max_depth: int
    drafters: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, max_nodes: _Optional[int] = ..., max_depth: _Optional[int] = ..., drafters: _Optional[_Iterable[str]] = ...) -> None: ...

class LogprobsWanted(_message.Message):
    __slots__ = ("output_top", "prompt_top")
    OUTPUT_TOP_FIELD_NUMBER: _ClassVar[int]
    PROMPT_TOP_FIELD_NUMBER: _ClassVar[int]
    output_top: int
    prompt_top: int
    def __init__(self, output_top: _Optional[int] = ..., prompt_top: _Optional[int] = ...) -> None: ...

class Logprobs(_message.Message):
    __slots__ = ("logprobs", "num_top", "top_token_ids", "top_logprobs")
    LOGPROBS_FIELD_NUMBER: _ClassVar[int]
    NUM_TOP_FIELD_NUMBER: _ClassVar[int]
    TOP_TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    TOP_LOGPROBS_FIELD_NUMBER: _ClassVar[int]
    logprobs: _containers.RepeatedScalarFieldContainer[float]
    num_top: _containers.RepeatedScalarFieldContainer[int]
    top_token_ids: _containers.RepeatedScalarFieldContainer[int]
    top_logprobs: _containers.RepeatedScalarFieldContainer[float]
    def __init__(self, logprobs: _Optional[_Iterable[float]] = ..., num_top: _Optional[_Iterable[int]] = ..., top_token_ids: _Optional[_Iterable[int]] = ..., top_logprobs: _Optional[_Iterable[float]] = ...) -> None: ...

class Open(_message.Message):
    __slots__ = ("session_id", "epoch", "token_ids", "prompt_len", "max_len", "sampling", "stop_token_ids", "mode", "speculation", "logprobs", "traceparent", "cache_salt")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    PROMPT_LEN_FIELD_NUMBER: _ClassVar[int]
    MAX_LEN_FIELD_NUMBER: _ClassVar[int]
    SAMPLING_FIELD_NUMBER: _ClassVar[int]
    STOP_TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    SPECULATION_FIELD_NUMBER: _ClassVar[int]
    LOGPROBS_FIELD_NUMBER: _ClassVar[int]
    TRACEPARENT_FIELD_NUMBER: _ClassVar[int]
    CACHE_SALT_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    epoch: int
    token_ids: _containers.RepeatedScalarFieldContainer[int]
    prompt_len: int
    max_len: int
    sampling: Sampling
    stop_token_ids: _containers.RepeatedScalarFieldContainer[int]
    mode: Mode
    speculation: SpeculationLimits
    logprobs: LogprobsWanted
    traceparent: str
    cache_salt: str
    def __init__(self, session_id: _Optional[str] = ..., epoch: _Optional[int] = ..., token_ids: _Optional[_Iterable[int]] = ..., prompt_len: _Optional[int] = ..., max_len: _Optional[int] = ..., sampling: _Optional[_Union[Sampling, _Mapping]] = ..., stop_token_ids: _Optional[_Iterable[int]] = ..., mode: _Optional[_Union[Mode, str]] = ..., speculation: _Optional[_Union[SpeculationLimits, _Mapping]] = ..., logprobs: _Optional[_Union[LogprobsWanted, _Mapping]] = ..., traceparent: _Optional[str] = ..., cache_salt: _Optional[str] = ...) -> None: ...

class Resume(_message.Message):
    __slots__ = ("session_id", "epoch", "have_len")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    HAVE_LEN_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    epoch: int
    have_len: int
    def __init__(self, session_id: _Optional[str] = ..., epoch: _Optional[int] = ..., have_len: _Optional[int] = ...) -> None: ...

class Close(_message.Message):
    __slots__ = ("session_id", "epoch")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    epoch: int
    def __init__(self, session_id: _Optional[str] = ..., epoch: _Optional[int] = ...) -> None: ...

class RoundRecord(_message.Message):
    __slots__ = ("round_id", "base_len", "launch_ns", "end_ns", "wait_ns", "num_proposed", "num_accepted", "num_tested", "num_batch_rows", "lookup", "verified_steps", "tree_depth", "why_plain", "drafters", "num_proposed_by", "num_accepted_by", "drafter_states", "num_cached", "shadow")
    ROUND_ID_FIELD_NUMBER: _ClassVar[int]
    BASE_LEN_FIELD_NUMBER: _ClassVar[int]
    LAUNCH_NS_FIELD_NUMBER: _ClassVar[int]
    END_NS_FIELD_NUMBER: _ClassVar[int]
    WAIT_NS_FIELD_NUMBER: _ClassVar[int]
    NUM_PROPOSED_FIELD_NUMBER: _ClassVar[int]
    NUM_ACCEPTED_FIELD_NUMBER: _ClassVar[int]
    NUM_TESTED_FIELD_NUMBER: _ClassVar[int]
    NUM_BATCH_ROWS_FIELD_NUMBER: _ClassVar[int]
    LOOKUP_FIELD_NUMBER: _ClassVar[int]
    VERIFIED_STEPS_FIELD_NUMBER: _ClassVar[int]
    TREE_DEPTH_FIELD_NUMBER: _ClassVar[int]
    WHY_PLAIN_FIELD_NUMBER: _ClassVar[int]
    DRAFTERS_FIELD_NUMBER: _ClassVar[int]
    NUM_PROPOSED_BY_FIELD_NUMBER: _ClassVar[int]
    NUM_ACCEPTED_BY_FIELD_NUMBER: _ClassVar[int]
    DRAFTER_STATES_FIELD_NUMBER: _ClassVar[int]
    NUM_CACHED_FIELD_NUMBER: _ClassVar[int]
    SHADOW_FIELD_NUMBER: _ClassVar[int]
    round_id: int
    base_len: int
    launch_ns: int
    end_ns: int
    wait_ns: int
    num_proposed: int
    num_accepted: int
    num_tested: int
    num_batch_rows: int
    lookup: Lookup
    verified_steps: _containers.RepeatedScalarFieldContainer[int]
    tree_depth: int
    why_plain: WhyPlain
    drafters: _containers.RepeatedScalarFieldContainer[DrafterKind]
    num_proposed_by: _containers.RepeatedScalarFieldContainer[int]
    num_accepted_by: _containers.RepeatedScalarFieldContainer[int]
    drafter_states: _containers.RepeatedScalarFieldContainer[DrafterState]
    num_cached: int
    shadow: ShadowRound
    def __init__(self, round_id: _Optional[int] = ..., base_len: _Optional[int] = ..., launch_ns: _Optional[int] = ..., end_ns: _Optional[int] = ..., wait_ns: _Optional[int] = ..., num_proposed: _Optional[int] = ..., num_accepted: _Optional[int] = ..., num_tested: _Optional[int] = ..., num_batch_rows: _Optional[int] = ..., lookup: _Optional[_Union[Lookup, str]] = ..., verified_steps: _Optional[_Iterable[int]] = ..., tree_depth: _Optional[int] = ..., why_plain: _Optional[_Union[WhyPlain, str]] = ..., drafters: _Optional[_Iterable[_Union[DrafterKind, str]]] = ..., num_proposed_by: _Optional[_Iterable[int]] = ..., num_accepted_by: _Optional[_Iterable[int]] = ..., drafter_states: _Optional[_Iterable[_Union[DrafterState, str]]] = ..., num_cached: _Optional[int] = ..., shadow: _Optional[_Union[ShadowRound, _Mapping]] = ...) -> None: ...

class ShadowRound(_message.Message):
    __slots__ = ("num_tokens", "num_proposed", "num_accepted", "num_tested", "lookup")
    NUM_TOKENS_FIELD_NUMBER: _ClassVar[int]
    NUM_PROPOSED_FIELD_NUMBER: _ClassVar[int]
    NUM_ACCEPTED_FIELD_NUMBER: _ClassVar[int]
    NUM_TESTED_FIELD_NUMBER: _ClassVar[int]
    LOOKUP_FIELD_NUMBER: _ClassVar[int]
    num_tokens: int
    num_proposed: int
    num_accepted: int
    num_tested: int
    lookup: Lookup
    def __init__(self, num_tokens: _Optional[int] = ..., num_proposed: _Optional[int] = ..., num_accepted: _Optional[int] = ..., num_tested: _Optional[int] = ..., lookup: _Optional[_Union[Lookup, str]] = ...) -> None: ...

class GrowthSpans(_message.Message):
    __slots__ = ("steps", "base_lens", "start_ns", "end_ns", "num_rows")
    STEPS_FIELD_NUMBER: _ClassVar[int]
    BASE_LENS_FIELD_NUMBER: _ClassVar[int]
    START_NS_FIELD_NUMBER: _ClassVar[int]
    END_NS_FIELD_NUMBER: _ClassVar[int]
    NUM_ROWS_FIELD_NUMBER: _ClassVar[int]
    steps: _containers.RepeatedScalarFieldContainer[int]
    base_lens: _containers.RepeatedScalarFieldContainer[int]
    start_ns: _containers.RepeatedScalarFieldContainer[int]
    end_ns: _containers.RepeatedScalarFieldContainer[int]
    num_rows: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, steps: _Optional[_Iterable[int]] = ..., base_lens: _Optional[_Iterable[int]] = ..., start_ns: _Optional[_Iterable[int]] = ..., end_ns: _Optional[_Iterable[int]] = ..., num_rows: _Optional[_Iterable[int]] = ...) -> None: ...

class Commit(_message.Message):
    __slots__ = ("session_id", "epoch", "base_len", "base_key", "token_ids", "record", "growth", "logprobs", "prompt_logprobs", "features")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    BASE_LEN_FIELD_NUMBER: _ClassVar[int]
    BASE_KEY_FIELD_NUMBER: _ClassVar[int]
    TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    RECORD_FIELD_NUMBER: _ClassVar[int]
    GROWTH_FIELD_NUMBER: _ClassVar[int]
    LOGPROBS_FIELD_NUMBER: _ClassVar[int]
    PROMPT_LOGPROBS_FIELD_NUMBER: _ClassVar[int]
    FEATURES_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    epoch: int
    base_len: int
    base_key: int
    token_ids: _containers.RepeatedScalarFieldContainer[int]
    record: RoundRecord
    growth: GrowthSpans
    logprobs: Logprobs
    prompt_logprobs: Logprobs
    features: Tensor
    def __init__(self, session_id: _Optional[str] = ..., epoch: _Optional[int] = ..., base_len: _Optional[int] = ..., base_key: _Optional[int] = ..., token_ids: _Optional[_Iterable[int]] = ..., record: _Optional[_Union[RoundRecord, _Mapping]] = ..., growth: _Optional[_Union[GrowthSpans, _Mapping]] = ..., logprobs: _Optional[_Union[Logprobs, _Mapping]] = ..., prompt_logprobs: _Optional[_Union[Logprobs, _Mapping]] = ..., features: _Optional[_Union[Tensor, _Mapping]] = ...) -> None: ...

class Refused(_message.Message):
    __slots__ = ("session_id", "epoch", "kind", "message")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    epoch: int
    kind: str
    message: str
    def __init__(self, session_id: _Optional[str] = ..., epoch: _Optional[int] = ..., kind: _Optional[str] = ..., message: _Optional[str] = ...) -> None: ...

class Ping(_message.Message):
    __slots__ = ("number", "origin_ns")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_NS_FIELD_NUMBER: _ClassVar[int]
    number: int
    origin_ns: int
    def __init__(self, number: _Optional[int] = ..., origin_ns: _Optional[int] = ...) -> None: ...

class Pong(_message.Message):
    __slots__ = ("number", "num_steps", "num_sessions", "origin_ns", "receive_ns", "transmit_ns")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    NUM_STEPS_FIELD_NUMBER: _ClassVar[int]
    NUM_SESSIONS_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_NS_FIELD_NUMBER: _ClassVar[int]
    RECEIVE_NS_FIELD_NUMBER: _ClassVar[int]
    TRANSMIT_NS_FIELD_NUMBER: _ClassVar[int]
    number: int
    num_steps: int
    num_sessions: int
    origin_ns: int
    receive_ns: int
    transmit_ns: int
    def __init__(self, number: _Optional[int] = ..., num_steps: _Optional[int] = ..., num_sessions: _Optional[int] = ..., origin_ns: _Optional[int] = ..., receive_ns: _Optional[int] = ..., transmit_ns: _Optional[int] = ...) -> None: ...

class Ledger(_message.Message):
    __slots__ = ("number", "session_ids", "epochs", "committed_lens", "keys", "kv_lens", "last_rounds", "credit", "are_paused")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    SESSION_IDS_FIELD_NUMBER: _ClassVar[int]
    EPOCHS_FIELD_NUMBER: _ClassVar[int]
    COMMITTED_LENS_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    KV_LENS_FIELD_NUMBER: _ClassVar[int]
    LAST_ROUNDS_FIELD_NUMBER: _ClassVar[int]
    CREDIT_FIELD_NUMBER: _ClassVar[int]
    ARE_PAUSED_FIELD_NUMBER: _ClassVar[int]
    number: int
    session_ids: _containers.RepeatedScalarFieldContainer[str]
    epochs: _containers.RepeatedScalarFieldContainer[int]
    committed_lens: _containers.RepeatedScalarFieldContainer[int]
    keys: _containers.RepeatedScalarFieldContainer[int]
    kv_lens: _containers.RepeatedScalarFieldContainer[int]
    last_rounds: _containers.RepeatedScalarFieldContainer[int]
    credit: Credit
    are_paused: _containers.RepeatedScalarFieldContainer[bool]
    def __init__(self, number: _Optional[int] = ..., session_ids: _Optional[_Iterable[str]] = ..., epochs: _Optional[_Iterable[int]] = ..., committed_lens: _Optional[_Iterable[int]] = ..., keys: _Optional[_Iterable[int]] = ..., kv_lens: _Optional[_Iterable[int]] = ..., last_rounds: _Optional[_Iterable[int]] = ..., credit: _Optional[_Union[Credit, _Mapping]] = ..., are_paused: _Optional[_Iterable[bool]] = ...) -> None: ...

class Credit(_message.Message):
    __slots__ = ("sessions", "slots", "num_others")
    SESSIONS_FIELD_NUMBER: _ClassVar[int]
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    NUM_OTHERS_FIELD_NUMBER: _ClassVar[int]
    sessions: int
    slots: int
    num_others: int
    def __init__(self, sessions: _Optional[int] = ..., slots: _Optional[int] = ..., num_others: _Optional[int] = ...) -> None: ...
