"""Prefix keys: a number that names a text, computed by both sides from the text alone.

    key(())             = 0
    key(prefix + token) = (key(prefix) * MULTIPLIER + token + 1) mod (2^61 - 1)

A polynomial hash over a Mersenne prime: one multiplication extends it, so drafter and verifier
agree on the name of a tree node without exchanging the tree. It is a checksum, not a proof: two
texts of one session share a key with probability about 2^-61 per pair.
"""

from collections.abc import Iterable

from ssd.core.ids import PrefixKey

MODULUS = (1 << 61) - 1
MULTIPLIER = 0x0F3A_95C1_7B2D_E64B
EMPTY_KEY = PrefixKey(0)


def extend_key(key: PrefixKey, token_id: int) -> PrefixKey:
    """The key of the prefix named by `key` with one more token."""
    return PrefixKey((key * MULTIPLIER + token_id + 1) % MODULUS)


def key_of(token_ids: Iterable[int], *, start: PrefixKey = EMPTY_KEY) -> PrefixKey:
    """The key of `token_ids` appended to the prefix named by `start`."""
    key = start
    for token_id in token_ids:
        key = extend_key(key, token_id)
    return key
