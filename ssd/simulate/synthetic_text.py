"""A language in which every prefix has one next token, and a draft that guesses it at a given rate.

Everything is a function of the prefix key and a seed, so drafter and verifier need not talk to
agree, and a prefix that the text never takes has a next token as well.
"""

from dataclasses import dataclass

from ssd.core.ids import PrefixKey

VOCAB_SIZE = 1 << 20
_MASK = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class SyntheticText:
    """The target's token is the draft's first candidate at the rate `acceptance`.

    Of the other times, it is the second at the rate `next_share`, of what is left the third at that
    rate again, and so on: with 0.5 and six candidates one miss in 32 is a token not listed.
    """

    acceptance: float
    next_share: float = 0.5
    seed: int = 0

    def next_token(self, key: PrefixKey) -> int:
        """The target's token after the prefix, below `VOCAB_SIZE - 1`."""
        return _mix(key ^ self.seed) % (VOCAB_SIZE - 1)

    def candidates(
        self, key: PrefixKey, num_candidates: int
    ) -> tuple[tuple[int, ...], tuple[float, ...]]:
        """The draft's candidates after the prefix, best first, with their probabilities."""
        true_rank = self._rank(_mix(key ^ self.seed ^ 0x9E37_79B9_7F4A_7C15) / 2.0**64)
        true_token = self.next_token(key)
        others = (_mix(key + rank + 1) % (VOCAB_SIZE - 1) for rank in range(num_candidates))
        token_ids = [
            true_token if rank == true_rank else (other + (other == true_token)) % VOCAB_SIZE
            for rank, other in enumerate(others)
        ]
        return tuple(token_ids), tuple(self._rate(rank) for rank in range(num_candidates))

    def _rate(self, rank: int) -> float:
        if rank == 0:
            return self.acceptance
        left = (1.0 - self.next_share) ** (rank - 1)
        return (1.0 - self.acceptance) * self.next_share * left

    def _rank(self, uniform: float) -> int:
        """The rank whose stretch of [0, 1) holds the number."""
        rank, end = 0, self.acceptance
        while uniform >= end and rank < 64:
            rank += 1
            end += self._rate(rank)
        return rank


def _mix(value: int) -> int:
    """64 well-stirred bits (the finaliser of SplitMix64, Steele et al. 2014)."""
    value = (value + 0x9E37_79B9_7F4A_7C15) & _MASK
    value = ((value ^ (value >> 30)) * 0xBF58_476D_1CE4_E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D0_49BB_1331_11EB) & _MASK
    return value ^ (value >> 31)
