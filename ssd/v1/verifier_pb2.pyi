from ssd.v1 import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class GetTokenizerRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetTokenizerResponse(_message.Message):
    __slots__ = ("tokenizer_json", "chat_template", "bos_token", "eos_token")
    TOKENIZER_JSON_FIELD_NUMBER: _ClassVar[int]
    CHAT_TEMPLATE_FIELD_NUMBER: _ClassVar[int]
    BOS_TOKEN_FIELD_NUMBER: _ClassVar[int]
    EOS_TOKEN_FIELD_NUMBER: _ClassVar[int]
    tokenizer_json: str
    chat_template: str
    bos_token: str
    eos_token: str
    def __init__(self, tokenizer_json: _Optional[str] = ..., chat_template: _Optional[str] = ..., bos_token: _Optional[str] = ..., eos_token: _Optional[str] = ...) -> None: ...

class ServeRequest(_message.Message):
    __slots__ = ("orders", "checksum")
    ORDERS_FIELD_NUMBER: _ClassVar[int]
    CHECKSUM_FIELD_NUMBER: _ClassVar[int]
    orders: _containers.RepeatedCompositeFieldContainer[VerifierOrder]
    checksum: int
    def __init__(self, orders: _Optional[_Iterable[_Union[VerifierOrder, _Mapping]]] = ..., checksum: _Optional[int] = ...) -> None: ...

class VerifierOrder(_message.Message):
    __slots__ = ("hello", "open", "close", "assign_drafters", "ping", "resume")
    HELLO_FIELD_NUMBER: _ClassVar[int]
    OPEN_FIELD_NUMBER: _ClassVar[int]
    CLOSE_FIELD_NUMBER: _ClassVar[int]
    ASSIGN_DRAFTERS_FIELD_NUMBER: _ClassVar[int]
    PING_FIELD_NUMBER: _ClassVar[int]
    RESUME_FIELD_NUMBER: _ClassVar[int]
    hello: _common_pb2.Hello
    open: _common_pb2.Open
    close: _common_pb2.Close
    assign_drafters: AssignDrafters
    ping: _common_pb2.Ping
    resume: _common_pb2.Resume
    def __init__(self, hello: _Optional[_Union[_common_pb2.Hello, _Mapping]] = ..., open: _Optional[_Union[_common_pb2.Open, _Mapping]] = ..., close: _Optional[_Union[_common_pb2.Close, _Mapping]] = ..., assign_drafters: _Optional[_Union[AssignDrafters, _Mapping]] = ..., ping: _Optional[_Union[_common_pb2.Ping, _Mapping]] = ..., resume: _Optional[_Union[_common_pb2.Resume, _Mapping]] = ...) -> None: ...

class AssignDrafters(_message.Message):
    __slots__ = ("addresses",)
    ADDRESSES_FIELD_NUMBER: _ClassVar[int]
    addresses: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, addresses: _Optional[_Iterable[str]] = ...) -> None: ...

class ServeResponse(_message.Message):
    __slots__ = ("reports", "checksum")
    REPORTS_FIELD_NUMBER: _ClassVar[int]
    CHECKSUM_FIELD_NUMBER: _ClassVar[int]
    reports: _containers.RepeatedCompositeFieldContainer[VerifierReport]
    checksum: int
    def __init__(self, reports: _Optional[_Iterable[_Union[VerifierReport, _Mapping]]] = ..., checksum: _Optional[int] = ...) -> None: ...

class VerifierReport(_message.Message):
    __slots__ = ("hello", "commit", "finished", "refused", "pong", "ledger")
    HELLO_FIELD_NUMBER: _ClassVar[int]
    COMMIT_FIELD_NUMBER: _ClassVar[int]
    FINISHED_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    PONG_FIELD_NUMBER: _ClassVar[int]
    LEDGER_FIELD_NUMBER: _ClassVar[int]
    hello: _common_pb2.Hello
    commit: _common_pb2.Commit
    finished: Finished
    refused: _common_pb2.Refused
    pong: _common_pb2.Pong
    ledger: _common_pb2.Ledger
    def __init__(self, hello: _Optional[_Union[_common_pb2.Hello, _Mapping]] = ..., commit: _Optional[_Union[_common_pb2.Commit, _Mapping]] = ..., finished: _Optional[_Union[Finished, _Mapping]] = ..., refused: _Optional[_Union[_common_pb2.Refused, _Mapping]] = ..., pong: _Optional[_Union[_common_pb2.Pong, _Mapping]] = ..., ledger: _Optional[_Union[_common_pb2.Ledger, _Mapping]] = ...) -> None: ...

class Finished(_message.Message):
    __slots__ = ("session_id", "epoch", "total_len", "reason")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    TOTAL_LEN_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    epoch: int
    total_len: int
    reason: _common_pb2.FinishReason
    def __init__(self, session_id: _Optional[str] = ..., epoch: _Optional[int] = ..., total_len: _Optional[int] = ..., reason: _Optional[_Union[_common_pb2.FinishReason, str]] = ...) -> None: ...

class GetFlightRecordsRequest(_message.Message):
    __slots__ = ("session_id", "with_tokens", "has_owners")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    WITH_TOKENS_FIELD_NUMBER: _ClassVar[int]
    HAS_OWNERS_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    with_tokens: bool
    has_owners: bool
    def __init__(self, session_id: _Optional[str] = ..., with_tokens: _Optional[bool] = ..., has_owners: _Optional[bool] = ...) -> None: ...

class GetFlightRecordsResponse(_message.Message):
    __slots__ = ("records",)
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    records: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, records: _Optional[_Iterable[bytes]] = ...) -> None: ...
