from ssd.v1 import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Role(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ROLE_UNSPECIFIED: _ClassVar[Role]
    ROLE_VERIFIER: _ClassVar[Role]
    ROLE_DRAFTER: _ClassVar[Role]
ROLE_UNSPECIFIED: Role
ROLE_VERIFIER: Role
ROLE_DRAFTER: Role

class Worker(_message.Message):
    __slots__ = ("name", "role", "address", "hello", "node", "device", "process_id", "metrics_address", "is_leaving")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    HELLO_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    DEVICE_FIELD_NUMBER: _ClassVar[int]
    PROCESS_ID_FIELD_NUMBER: _ClassVar[int]
    METRICS_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    IS_LEAVING_FIELD_NUMBER: _ClassVar[int]
    name: str
    role: Role
    address: str
    hello: _common_pb2.Hello
    node: str
    device: str
    process_id: int
    metrics_address: str
    is_leaving: bool
    def __init__(self, name: _Optional[str] = ..., role: _Optional[_Union[Role, str]] = ..., address: _Optional[str] = ..., hello: _Optional[_Union[_common_pb2.Hello, _Mapping]] = ..., node: _Optional[str] = ..., device: _Optional[str] = ..., process_id: _Optional[int] = ..., metrics_address: _Optional[str] = ..., is_leaving: _Optional[bool] = ...) -> None: ...

class DrainRequest(_message.Message):
    __slots__ = ("name", "undo")
    NAME_FIELD_NUMBER: _ClassVar[int]
    UNDO_FIELD_NUMBER: _ClassVar[int]
    name: str
    undo: bool
    def __init__(self, name: _Optional[str] = ..., undo: _Optional[bool] = ...) -> None: ...

class DrainResponse(_message.Message):
    __slots__ = ("num_staying",)
    NUM_STAYING_FIELD_NUMBER: _ClassVar[int]
    num_staying: int
    def __init__(self, num_staying: _Optional[int] = ...) -> None: ...

class RegisterRequest(_message.Message):
    __slots__ = ("worker",)
    WORKER_FIELD_NUMBER: _ClassVar[int]
    worker: Worker
    def __init__(self, worker: _Optional[_Union[Worker, _Mapping]] = ...) -> None: ...

class RegisterResponse(_message.Message):
    __slots__ = ("lease_s",)
    LEASE_S_FIELD_NUMBER: _ClassVar[int]
    lease_s: float
    def __init__(self, lease_s: _Optional[float] = ...) -> None: ...

class GetStatusRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetStatusResponse(_message.Message):
    __slots__ = ("workers", "sessions", "metrics_address", "unix_ns", "moves")
    WORKERS_FIELD_NUMBER: _ClassVar[int]
    SESSIONS_FIELD_NUMBER: _ClassVar[int]
    METRICS_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    UNIX_NS_FIELD_NUMBER: _ClassVar[int]
    MOVES_FIELD_NUMBER: _ClassVar[int]
    workers: _containers.RepeatedCompositeFieldContainer[WorkerStatus]
    sessions: _containers.RepeatedCompositeFieldContainer[SessionStatus]
    metrics_address: str
    unix_ns: int
    moves: _containers.RepeatedCompositeFieldContainer[MoveCount]
    def __init__(self, workers: _Optional[_Iterable[_Union[WorkerStatus, _Mapping]]] = ..., sessions: _Optional[_Iterable[_Union[SessionStatus, _Mapping]]] = ..., metrics_address: _Optional[str] = ..., unix_ns: _Optional[int] = ..., moves: _Optional[_Iterable[_Union[MoveCount, _Mapping]]] = ...) -> None: ...

class MoveCount(_message.Message):
    __slots__ = ("reason", "count")
    REASON_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    reason: str
    count: int
    def __init__(self, reason: _Optional[str] = ..., count: _Optional[int] = ...) -> None: ...

class WorkerStatus(_message.Message):
    __slots__ = ("worker", "is_up", "reason", "num_steps", "num_sessions", "round_trip_ns", "clock_offset_ns")
    WORKER_FIELD_NUMBER: _ClassVar[int]
    IS_UP_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    NUM_STEPS_FIELD_NUMBER: _ClassVar[int]
    NUM_SESSIONS_FIELD_NUMBER: _ClassVar[int]
    ROUND_TRIP_NS_FIELD_NUMBER: _ClassVar[int]
    CLOCK_OFFSET_NS_FIELD_NUMBER: _ClassVar[int]
    worker: Worker
    is_up: bool
    reason: str
    num_steps: int
    num_sessions: int
    round_trip_ns: int
    clock_offset_ns: int
    def __init__(self, worker: _Optional[_Union[Worker, _Mapping]] = ..., is_up: _Optional[bool] = ..., reason: _Optional[str] = ..., num_steps: _Optional[int] = ..., num_sessions: _Optional[int] = ..., round_trip_ns: _Optional[int] = ..., clock_offset_ns: _Optional[int] = ...) -> None: ...

class SessionStatus(_message.Message):
    __slots__ = ("session_id", "epoch", "verifier", "prompt_len", "committed_len", "held_epoch", "held_key", "kv_len", "last_round")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    VERIFIER_FIELD_NUMBER: _ClassVar[int]
    PROMPT_LEN_FIELD_NUMBER: _ClassVar[int]
    COMMITTED_LEN_FIELD_NUMBER: _ClassVar[int]
    HELD_EPOCH_FIELD_NUMBER: _ClassVar[int]
    HELD_KEY_FIELD_NUMBER: _ClassVar[int]
    KV_LEN_FIELD_NUMBER: _ClassVar[int]
    LAST_ROUND_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    epoch: int
    verifier: str
    prompt_len: int
    committed_len: int
    held_epoch: int
    held_key: int
    kv_len: int
    last_round: int
    def __init__(self, session_id: _Optional[str] = ..., epoch: _Optional[int] = ..., verifier: _Optional[str] = ..., prompt_len: _Optional[int] = ..., committed_len: _Optional[int] = ..., held_epoch: _Optional[int] = ..., held_key: _Optional[int] = ..., kv_len: _Optional[int] = ..., last_round: _Optional[int] = ...) -> None: ...

class DumpSessionRequest(_message.Message):
    __slots__ = ("session_id", "with_tokens")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    WITH_TOKENS_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    with_tokens: bool
    def __init__(self, session_id: _Optional[str] = ..., with_tokens: _Optional[bool] = ...) -> None: ...

class DumpSessionResponse(_message.Message):
    __slots__ = ("records",)
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    records: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, records: _Optional[_Iterable[bytes]] = ...) -> None: ...
