"""The seeds of several answers to one request (`ssd.sampling.philox.derive_seed`, without torch).

The first answer keeps the request's seed. Answer i gets the first two words of Philox4x32-10 under
that seed at the counter (i, 0, DERIVE, 0), so that it can be had again, alone, by its own seed.
"""

_DERIVE = 5
_WORD_MASK = 0xFFFFFFFF
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_KEY_STEPS = (0x9E3779B9, 0xBB67AE85)


def choice_seed(seed: int, choice: int) -> int:
    """The seed of the `choice`-th answer, counted from 0."""
    if choice == 0:
        return seed
    low, high = seed & _WORD_MASK, seed >> 32
    words = (choice, 0, _DERIVE, 0)
    for _ in range(10):
        first, second = words[0] * _MULTIPLIERS[0], words[2] * _MULTIPLIERS[1]
        words = (
            (second >> 32) ^ words[1] ^ low,
            second & _WORD_MASK,
            (first >> 32) ^ words[3] ^ high,
            first & _WORD_MASK,
        )
        low, high = (low + _KEY_STEPS[0]) & _WORD_MASK, (high + _KEY_STEPS[1]) & _WORD_MASK
    return words[0] | words[1] << 32
