"""How an n-gram drafter looks for what was said before."""

from dataclasses import dataclass
from enum import StrEnum

from ssd.core.errors import ConfigError

_COUNTS = ("size_n", "size_m", "min_hits", "shortest", "num_candidates", "max_nodes")


class NgramForm(StrEnum):
    """What is remembered of a text.

    `simple`: where each run of tokens stood, so that the longest suffix goes on as it did there.
    `map-k`: the last few tokens that followed each run. `map-k4v`: the four commonest of them, with
    counts.
    """

    SIMPLE = "simple"
    MAP_K = "map-k"
    MAP_K4V = "map-k4v"


@dataclass(frozen=True, slots=True)
class NgramLimits:
    """Runs of `shortest` to `size_n` tokens are remembered, and up to `size_m` tokens drafted.

    A run counts once it was seen `min_hits` times. A place of the draft has at most
    `num_candidates`, all of it `max_nodes`. What is remembered of a text, or of all of them where
    they share it, takes `table_bytes` at most.
    """

    form: NgramForm = NgramForm.SIMPLE
    size_n: int = 12
    size_m: int = 48
    min_hits: int = 1
    shortest: int = 1
    num_candidates: int = 6
    max_nodes: int = 64
    table_bytes: int = 16 * 2**20

    def __post_init__(self) -> None:
        for name in _COUNTS:
            if getattr(self, name) < 1:
                raise ConfigError(f"ngram.{name} must be at least 1, not {getattr(self, name)}")
        if self.shortest > self.size_n:
            raise ConfigError(
                f"ngram.shortest ({self.shortest}) must be at most ngram.size_n ({self.size_n})"
            )

    @property
    def sizes(self) -> tuple[int, ...]:
        """Of the runs that a table remembers, longest first: each half of the one before."""
        sizes = [self.size_n]
        while sizes[-1] // 2 >= self.shortest:
            sizes.append(sizes[-1] // 2)
        return tuple(sizes)


def estimate_of(matched_len: int) -> float:
    """How likely a text goes on as it did, when so many tokens before agree.

    A first guess; the counts of `ssd.core.edge_rates` correct it, apart for each unit of log-odds.
    """
    return matched_len / (matched_len + 2.0)
