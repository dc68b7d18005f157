"""A language model made of hashes: small, deterministic, and different after every prefix.

Its next token depends on the whole prefix, so one wrong token anywhere changes all that follows.
Scores are coarse on purpose: exact ties for the best one happen, and the lowest id wins them.
"""

import hashlib
import math
from collections.abc import Sequence
from typing import Protocol

Prefix = tuple[int, ...]
Ranked = tuple[tuple[int, ...], tuple[float, ...]]
"""Candidates and their estimates, best first."""

_NEAR_TOKENS = 2
_NEAR_SHARE = 3  # how much more the last tokens weigh than the rest of the prefix
_SHARPNESS = 0.02


class DraftModel(Protocol):
    """Anything that ranks what may follow a prefix."""

    def ranked(self, prefix: Prefix, count: int) -> Ranked:
        """The `count` likeliest next tokens."""
        ...


class ScriptedModel:
    """Scores from a hash of the last tokens plus, more quietly, one of the whole prefix.

    The vocabulary has at most 64 ids: a digest gives one byte for each.
    """

    def __init__(self, *, vocab_size: int = 12, seed: int = 0) -> None:
        self.vocab_size = vocab_size
        self._salt = seed.to_bytes(8, "little")
        self._scores: dict[Prefix, list[float]] = {}

    def scores(self, prefix: Prefix) -> list[float]:
        """One score per vocabulary id."""
        known = self._scores.get(prefix)
        if known is None:
            near, far = self.near_scores(prefix), self._hashed(prefix)
            known = [a + b for a, b in zip(near, far, strict=True)]
            self._scores[prefix] = known
        return known

    def near_scores(self, prefix: Prefix) -> list[float]:
        """What the scores would be if the model saw its last tokens only."""
        return [_NEAR_SHARE * each for each in self._hashed(prefix[-_NEAR_TOKENS:])]

    def next_token(self, prefix: Prefix) -> int:
        return best_of(self.scores(prefix))

    def ranked(self, prefix: Prefix, count: int) -> Ranked:
        return ranked_by(self.scores(prefix), count)

    def continue_text(
        self, prefix: Prefix, *, max_len: int, stop_token_ids: frozenset[int] = frozenset()
    ) -> Prefix:
        """Plain decoding: the reference for everything that is served."""
        text = list(prefix)
        while len(text) < max_len:
            text.append(self.next_token(tuple(text)))
            if text[-1] in stop_token_ids:
                break
        return tuple(text[len(prefix) :])

    def _hashed(self, prefix: Prefix) -> bytes:
        return hashlib.blake2b(bytes(prefix), digest_size=self.vocab_size, salt=self._salt).digest()


class Adversary:
    """Ranks the target's scores from the bottom, and never lists its choice."""

    def __init__(self, target: ScriptedModel) -> None:
        self._target = target

    def ranked(self, prefix: Prefix, count: int) -> Ranked:
        scores = self._target.scores(prefix)
        best = best_of(scores)
        worst_first = sorted(range(len(scores)), key=lambda each: scores[each])
        token_ids = tuple(each for each in worst_first if each != best)[:count]
        return token_ids, tuple(0.9 * 0.1**rank for rank in range(len(token_ids)))


class Oracle:
    """Lists the target's choice alone, and is nearly sure of it."""

    def __init__(self, target: ScriptedModel) -> None:
        self._target = target

    def ranked(self, prefix: Prefix, count: int) -> Ranked:
        return (self._target.next_token(prefix),), (0.99,)


class Noisy:
    """Right seven times in ten; else the target's choice comes second, or not at all."""

    def __init__(self, target: ScriptedModel, *, seed: int = 0) -> None:
        self._target = target
        self._coins = ScriptedModel(vocab_size=1, seed=seed + 1)

    def ranked(self, prefix: Prefix, count: int) -> Ranked:
        token_ids, estimates = self._target.ranked(prefix, count + 1)
        coin = self._coins.scores(prefix)[0] % 256 / 256
        if coin >= 0.85:
            token_ids = token_ids[1:]
        elif coin >= 0.7:
            token_ids = (*token_ids[1:2], token_ids[0], *token_ids[2:])
        return token_ids[:count], estimates[: min(count, len(token_ids))]


class ShortContext:
    """The target, had it seen its last tokens only: often right, never for long."""

    def __init__(self, target: ScriptedModel) -> None:
        self._target = target

    def ranked(self, prefix: Prefix, count: int) -> Ranked:
        return ranked_by(self._target.near_scores(prefix), count)


def best_of(scores: Sequence[float]) -> int:
    """The id with the highest score; of equals the lowest."""
    return max(range(len(scores)), key=lambda each: (scores[each], -each))


def ranked_by(scores: Sequence[float], count: int) -> Ranked:
    """The best `count` ids with their share of the exponentials of the scores."""
    order = sorted(range(len(scores)), key=lambda each: (-scores[each], each))
    weights = [math.exp(_SHARPNESS * (each - max(scores))) for each in scores]
    total = sum(weights)
    return tuple(order[:count]), tuple(weights[each] / total for each in order[:count])
