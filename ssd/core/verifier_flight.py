"""What a flight record says of a session on its verifier."""

from dataclasses import dataclass

from ssd.core.expansion import Expansion
from ssd.core.messages import FinishReason, Open


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A session between two events; `opening` holds its committed text as it stood."""

    opening: Open
    kv_len: int = 0
    expansions: tuple[Expansion, ...] = ()


@dataclass(frozen=True, slots=True)
class Grown:
    """A drafter's expansions came in."""

    expansions: tuple[Expansion, ...]


@dataclass(frozen=True, slots=True)
class Launched:
    """Rows of the session went into a round: a prefill chunk, or a tree (`parents` not empty) after
    what was left of the text."""

    round_id: int
    token_ids: tuple[int, ...]
    parents: tuple[int, ...] = ()

    @property
    def is_prefill(self) -> bool:
        return not self.parents

    @property
    def tree_token_ids(self) -> tuple[int, ...]:
        return self.token_ids[len(self.token_ids) - len(self.parents) :]


@dataclass(frozen=True, slots=True)
class Drawn:
    """The rows ran: the target's token after each node of the tree, nothing after a prefill."""

    round_id: int
    target_token_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Failed:
    """The round's forward raised an error; its rows count as never run."""

    round_id: int


@dataclass(frozen=True, slots=True)
class Settled:
    """What the verification brought, and how the session stood after it."""

    emitted: tuple[int, ...]
    finish_reason: FinishReason | None
    committed_len: int
    kv_len: int


Event = Grown | Launched | Drawn | Failed | Settled
