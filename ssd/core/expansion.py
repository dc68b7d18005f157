"""Expansions: what a drafter sends.

An expansion says: after the text named by `key`, these tokens are likely next. It speaks of a text,
not of a tree, a round or an earlier message; so whatever arrives can be useless but never wrong,
duplicates merge, and order does not matter. (The SSD paper's cache, arXiv 2603.03251 section 3, is
the same tree keyed by outcomes.)
"""

from dataclasses import dataclass, replace

from ssd.core.drafter_kind import DrafterKind, bits_of
from ssd.core.ids import PrefixKey
from ssd.core.sparse_law import SparseLaw


@dataclass(frozen=True, slots=True)
class Expansion:
    """Likely next tokens after one prefix, best first.

    `position` is the index in the text of the token they propose, which is the prefix's length.
    `estimates[i]` is the drafter's own probability that the target takes `token_ids[i]` given that
    it stands at the prefix. `step` is the drafter's growth step that ran the prefix's last token.
    The first `num_proposals` candidates (None: all of them) may be verified, the others are keys:
    tokens that further expansions may follow. Under rule `ratio` the proposals are in draw order,
    and `law` is what they were drawn from, None where they were not drawn.

    `source` is the kind of drafter that said so. Where several did, `parts` is what each of them
    said and `origins[i]` which of them named `token_ids[i]`, as bits of their kinds.
    """

    key: PrefixKey
    position: int
    token_ids: tuple[int, ...]
    estimates: tuple[float, ...]
    step: int = 0
    num_proposals: int | None = None
    law: SparseLaw | None = None
    source: DrafterKind = DrafterKind.MODEL
    parts: tuple["Expansion", ...] = ()
    origins: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if len(self.token_ids) != len(self.estimates):
            raise ValueError(f"{len(self.token_ids)} tokens, {len(self.estimates)} estimates")

    @property
    def proposals(self) -> tuple[int, ...]:
        return self.token_ids[: self.num_proposals]

    @property
    def source_bits(self) -> int:
        """All kinds of drafters that had a say."""
        return bits_of(part.source for part in self.parts or (self,))

    def said_by(self, kind: DrafterKind) -> "Expansion":
        """The same of this kind of drafter; a peer's message does not say what it comes from."""
        return self if self.source is kind else replace(self, source=kind)

    def origin_of(self, token_id: int) -> int:
        """Which kinds of drafters named a candidate, as bits; it must be one."""
        return self.origins[self.token_ids.index(token_id)] if self.parts else self.source.bit

    def step_of(self, token_id: int) -> int | None:
        """The growth step that proposed a candidate; None where the verifier itself did."""
        for part in self.parts or (self,):
            if token_id in part.token_ids and not part.is_own:
                return part.step
        return None

    @property
    def is_own(self) -> bool:
        """Whether the verifier's own n-gram drafter said so, which takes no growth steps."""
        return self.source is DrafterKind.NGRAM and self.step == 0

    def is_sampled(self, *, vocab_size: int) -> bool:
        """Whether a peer's proposals may come under rule `ratio`: counted, and of the law sent."""
        if self.num_proposals is None or not 0 <= self.num_proposals <= len(self.token_ids):
            return False
        if self.law is None:
            return True
        return self.law.makes_sense(vocab_size=vocab_size)


@dataclass(frozen=True, slots=True)
class SampledCandidates:
    """What rule `ratio` drew after one prefix: proposals in draw order, then keys, best first."""

    token_ids: tuple[int, ...]
    num_proposals: int
    law: SparseLaw | None
