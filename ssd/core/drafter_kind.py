"""The kinds of drafters there are: what each can do, and what it needs."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache

from ssd.core.errors import InvalidRequest


class DrafterKind(StrEnum):
    """`model`: a smaller causal model with the target's tokenizer. `ngram`: what was said before is
    said again; no model. `self`: the target's own first layers with its norm and head.
    """

    MODEL = "model"
    NGRAM = "ngram"
    SELF = "self"

    __hash__ = str.__hash__  # an enum's own is a Python call, in every look-up of every round

    @property
    def bit(self) -> int:
        """Of this kind in a set of kinds that is written as a number."""
        return _BITS[self]


_BITS = {kind: 1 << index for index, kind in enumerate(DrafterKind)}


class DrafterState(StrEnum):
    """What a session makes of one of its drafters (`ssd.core.speculation_control`)."""

    ACTIVE = "active"
    PAUSED = "paused"  # it does not pay; nothing is asked of it
    PROBED = "probed"  # it is asked again for a while


@dataclass(frozen=True, slots=True)
class DrafterTraits:
    """What a drafter of a kind can do, and what it needs.

    `gives_logits`: its estimates are those of a law, which rule `ratio` can sample from.
    `branches`: it may list several candidates for one place. `needs_features`: it reads hidden
    states of the target for the committed text. `maps_vocabulary`: its tokenizer may differ from
    the target's. `has_weights`: it is a model, which takes a device and a process of its own.
    """

    kind: DrafterKind
    gives_logits: bool
    branches: bool
    needs_features: bool = False
    maps_vocabulary: bool = False
    has_weights: bool = True


TRAITS: Mapping[DrafterKind, DrafterTraits] = {
    traits.kind: traits
    for traits in (
        DrafterTraits(DrafterKind.MODEL, gives_logits=True, branches=True),
        DrafterTraits(DrafterKind.NGRAM, gives_logits=False, branches=True, has_weights=False),
        DrafterTraits(DrafterKind.SELF, gives_logits=True, branches=True),
    )
}
"""The registry: everything that may be named as a drafter."""

NO_KINDS: frozenset[DrafterKind] = frozenset()
ALL_KINDS = frozenset(DrafterKind)


def kinds_of(names: Iterable[str], *, field: str) -> frozenset[DrafterKind]:
    """The kinds that a list names.

    Raises:
        InvalidRequest: a name is none of a kind.
    """
    kinds = set()
    for name in names:
        try:
            kinds.add(DrafterKind(name))
        except ValueError as error:
            known = ", ".join(DrafterKind)
            words = f"{field}: {name!r} is no drafter; there are {known}"
            raise InvalidRequest(words, field) from error
    return frozenset(kinds)


def bits_of(kinds: Iterable[DrafterKind]) -> int:
    """A set of kinds as a number."""
    bits = 0
    for kind in kinds:
        bits |= kind.bit
    return bits


@cache
def kinds_in(bits: int) -> tuple[DrafterKind, ...]:
    """The kinds of a set that is written as a number."""
    return tuple(kind for kind in DrafterKind if bits & kind.bit)
