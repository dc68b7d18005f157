"""What a flight record says of a session in its coordinator's books."""

from dataclasses import dataclass

from ssd.core.client_session import Reconciled
from ssd.core.ids import Epoch, PrefixKey
from ssd.core.messages import FinishReason


@dataclass(frozen=True, slots=True)
class BooksAt:
    """The books between two events, and what of the request decides how they go on; `is_new` where
    a request begins, perhaps under an id that an earlier one had."""

    prompt_token_ids: tuple[int, ...]
    output_token_ids: tuple[int, ...]
    stop_token_ids: frozenset[int]
    max_len: int
    epoch: Epoch
    finish_reason: FinishReason | None = None
    is_new: bool = False


@dataclass(frozen=True, slots=True)
class Placed:
    """The session was opened on a verifier, above all epochs up to `above`."""

    above: Epoch
    epoch: Epoch
    committed_len: int


@dataclass(frozen=True, slots=True)
class Booked:
    """A verifier committed tokens, what the books made of it (None: it contradicts them), and their
    length after it."""

    epoch: Epoch
    base_len: int
    base_key: PrefixKey
    token_ids: tuple[int, ...]
    reconciled: Reconciled | None
    committed_len: int


@dataclass(frozen=True, slots=True)
class SaidFinished:
    """A verifier said that the text is complete, and what the books made of it."""

    epoch: Epoch
    total_len: int
    reason: FinishReason
    reconciled: Reconciled


@dataclass(frozen=True, slots=True)
class CutOff:
    """A stop string ended the text after so many output tokens."""

    num_tokens: int


@dataclass(frozen=True, slots=True)
class FoundComplete:
    """The books showed by themselves that the text is complete."""

    reason: FinishReason


Event = Placed | Booked | SaidFinished | CutOff | FoundComplete
