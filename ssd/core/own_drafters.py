"""The n-gram drafters that run inside a verifier, one for each session that may have one."""

from collections import OrderedDict
from dataclasses import dataclass, field

from ssd.core.drafter_kind import DrafterKind
from ssd.core.messages import Open
from ssd.core.mode import Mode
from ssd.core.ngram import NgramText
from ssd.core.ngram_table import NgramTable
from ssd.core.speculation_control import ControlLimits
from ssd.core.verifier_limits import VerifierLimits

_NUM_TABLES = 8
_ONLY_NGRAM = frozenset({DrafterKind.NGRAM})


@dataclass(frozen=True, slots=True)
class OwnDrafting:
    """What a session drafts with by itself, and the bounds of what it makes of its drafters."""

    ngram: NgramText | None = None
    limits: ControlLimits = field(default_factory=ControlLimits)


class OwnDrafters:
    """Owns the tables that sessions share, where they do: one for each cache salt, the last few."""

    def __init__(self, limits: VerifierLimits) -> None:
        self._limits = limits.ngram
        self._control = limits.control
        self._is_shared = limits.shares_ngrams
        self._tables: OrderedDict[str, NgramTable] = OrderedDict()

    def for_session(self, opening: Open) -> OwnDrafting:
        """How a new session drafts for itself; its drafter has yet to hear its text."""
        return OwnDrafting(self._ngram_of(opening), self._control)

    def _ngram_of(self, opening: Open) -> NgramText | None:
        """A drafter, or None where the session gets none.

        Rule `ratio` takes one drafter, so there the request must have named this one alone.
        """
        allowed = opening.speculation
        if self._limits is None or opening.mode is Mode.AR:
            return None
        if not allowed.allows(DrafterKind.NGRAM):
            return None
        if not opening.params.is_coupled and allowed.drafters != _ONLY_NGRAM:
            return None
        return NgramText(self._limits, shared=self._table(opening.cache_salt))

    def _table(self, salt: str | None) -> NgramTable | None:
        if not self._is_shared or salt is None or self._limits is None:
            return None
        table = self._tables.pop(salt, None) or NgramTable(self._limits)
        self._tables[salt] = table
        if len(self._tables) > _NUM_TABLES:
            self._tables.popitem(last=False)
        return table
