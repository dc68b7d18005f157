from ssd.v1 import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class GetDraftRecordsRequest(_message.Message):
    __slots__ = ("session_id", "with_tokens", "has_owners")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    WITH_TOKENS_FIELD_NUMBER: _ClassVar[int]
    HAS_OWNERS_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    with_tokens: bool
    has_owners: bool
    def __init__(self, session_id: _Optional[str] = ..., with_tokens: _Optional[bool] = ..., has_owners: _Optional[bool] = ...) -> None: ...

class GetDraftRecordsResponse(_message.Message):
    __slots__ = ("records",)
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    records: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, records: _Optional[_Iterable[bytes]] = ...) -> None: ...

class SpeculateRequest(_message.Message):
    __slots__ = ("orders", "checksum")
    ORDERS_FIELD_NUMBER: _ClassVar[int]
    CHECKSUM_FIELD_NUMBER: _ClassVar[int]
    orders: _containers.RepeatedCompositeFieldContainer[DrafterOrder]
    checksum: int
    def __init__(self, orders: _Optional[_Iterable[_Union[DrafterOrder, _Mapping]]] = ..., checksum: _Optional[int] = ...) -> None: ...

class DrafterOrder(_message.Message):
    __slots__ = ("hello", "open", "commit", "close", "rates", "ping")
    HELLO_FIELD_NUMBER: _ClassVar[int]
    OPEN_FIELD_NUMBER: _ClassVar[int]
    COMMIT_FIELD_NUMBER: _ClassVar[int]
    CLOSE_FIELD_NUMBER: _ClassVar[int]
    RATES_FIELD_NUMBER: _ClassVar[int]
    PING_FIELD_NUMBER: _ClassVar[int]
    hello: _common_pb2.Hello
    open: _common_pb2.Open
    commit: _common_pb2.Commit
    close: _common_pb2.Close
    rates: Rates
    ping: _common_pb2.Ping
    def __init__(self, hello: _Optional[_Union[_common_pb2.Hello, _Mapping]] = ..., open: _Optional[_Union[_common_pb2.Open, _Mapping]] = ..., commit: _Optional[_Union[_common_pb2.Commit, _Mapping]] = ..., close: _Optional[_Union[_common_pb2.Close, _Mapping]] = ..., rates: _Optional[_Union[Rates, _Mapping]] = ..., ping: _Optional[_Union[_common_pb2.Ping, _Mapping]] = ...) -> None: ...

class Rates(_message.Message):
    __slots__ = ("tests", "matches", "rule")
    TESTS_FIELD_NUMBER: _ClassVar[int]
    MATCHES_FIELD_NUMBER: _ClassVar[int]
    RULE_FIELD_NUMBER: _ClassVar[int]
    tests: _containers.RepeatedScalarFieldContainer[float]
    matches: _containers.RepeatedScalarFieldContainer[float]
    rule: _common_pb2.Rule
    def __init__(self, tests: _Optional[_Iterable[float]] = ..., matches: _Optional[_Iterable[float]] = ..., rule: _Optional[_Union[_common_pb2.Rule, str]] = ...) -> None: ...

class SpeculateResponse(_message.Message):
    __slots__ = ("reports", "checksum")
    REPORTS_FIELD_NUMBER: _ClassVar[int]
    CHECKSUM_FIELD_NUMBER: _ClassVar[int]
    reports: _containers.RepeatedCompositeFieldContainer[DrafterReport]
    checksum: int
    def __init__(self, reports: _Optional[_Iterable[_Union[DrafterReport, _Mapping]]] = ..., checksum: _Optional[int] = ...) -> None: ...

class DrafterReport(_message.Message):
    __slots__ = ("hello", "grow", "need", "refused", "pong", "ledger")
    HELLO_FIELD_NUMBER: _ClassVar[int]
    GROW_FIELD_NUMBER: _ClassVar[int]
    NEED_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    PONG_FIELD_NUMBER: _ClassVar[int]
    LEDGER_FIELD_NUMBER: _ClassVar[int]
    hello: _common_pb2.Hello
    grow: Grow
    need: Need
    refused: _common_pb2.Refused
    pong: _common_pb2.Pong
    ledger: _common_pb2.Ledger
    def __init__(self, hello: _Optional[_Union[_common_pb2.Hello, _Mapping]] = ..., grow: _Optional[_Union[Grow, _Mapping]] = ..., need: _Optional[_Union[Need, _Mapping]] = ..., refused: _Optional[_Union[_common_pb2.Refused, _Mapping]] = ..., pong: _Optional[_Union[_common_pb2.Pong, _Mapping]] = ..., ledger: _Optional[_Union[_common_pb2.Ledger, _Mapping]] = ...) -> None: ...

class Grow(_message.Message):
    __slots__ = ("session_id", "epoch", "base_len", "keys", "positions", "num_candidates", "steps", "token_ids", "estimates", "is_exhausted", "spans", "num_proposals", "law_lens", "law_token_ids", "law_weights")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    BASE_LEN_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    POSITIONS_FIELD_NUMBER: _ClassVar[int]
    NUM_CANDIDATES_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    ESTIMATES_FIELD_NUMBER: _ClassVar[int]
    IS_EXHAUSTED_FIELD_NUMBER: _ClassVar[int]
    SPANS_FIELD_NUMBER: _ClassVar[int]
    NUM_PROPOSALS_FIELD_NUMBER: _ClassVar[int]
    LAW_LENS_FIELD_NUMBER: _ClassVar[int]
    LAW_TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    LAW_WEIGHTS_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    epoch: int
    base_len: int
    keys: _containers.RepeatedScalarFieldContainer[int]
    positions: _containers.RepeatedScalarFieldContainer[int]
    num_candidates: _containers.RepeatedScalarFieldContainer[int]
    steps: _containers.RepeatedScalarFieldContainer[int]
    token_ids: _containers.RepeatedScalarFieldContainer[int]
    estimates: _containers.RepeatedScalarFieldContainer[float]
    is_exhausted: bool
    spans: _common_pb2.GrowthSpans
    num_proposals: _containers.RepeatedScalarFieldContainer[int]
    law_lens: _containers.RepeatedScalarFieldContainer[int]
    law_token_ids: bytes
    law_weights: bytes
    def __init__(self, session_id: _Optional[str] = ..., epoch: _Optional[int] = ..., base_len: _Optional[int] = ..., keys: _Optional[_Iterable[int]] = ..., positions: _Optional[_Iterable[int]] = ..., num_candidates: _Optional[_Iterable[int]] = ..., steps: _Optional[_Iterable[int]] = ..., token_ids: _Optional[_Iterable[int]] = ..., estimates: _Optional[_Iterable[float]] = ..., is_exhausted: _Optional[bool] = ..., spans: _Optional[_Union[_common_pb2.GrowthSpans, _Mapping]] = ..., num_proposals: _Optional[_Iterable[int]] = ..., law_lens: _Optional[_Iterable[int]] = ..., law_token_ids: _Optional[bytes] = ..., law_weights: _Optional[bytes] = ...) -> None: ...

class Need(_message.Message):
    __slots__ = ("session_id", "epoch", "from_len")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    FROM_LEN_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    epoch: int
    from_len: int
    def __init__(self, session_id: _Optional[str] = ..., epoch: _Optional[int] = ..., from_len: _Optional[int] = ...) -> None: ...
