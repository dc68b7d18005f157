"""Rounds that leave their drafts out, so that what plain decoding would take stays measured.

Whether speculation pays is its speed against plain decoding, which nobody runs while it pays. A
cost model knows the forward but not what lies between two of them. So one round in 256 that has
drafts verifies the bare roots instead: at four tokens a round that costs 0.3 % of the speed. The
first comes after 16, and the pauses double.
"""

FIRST_PROBE_AFTER = 16
PROBE_EVERY = 256


class PlainProbes:
    """Counts drafted rounds; by number alone, so that no token's value decides (rule `ratio`)."""

    def __init__(self) -> None:
        self._num_drafted = 0  # rounds since the last probe
        self._pause = FIRST_PROBE_AFTER

    @property
    def is_due(self) -> bool:
        return self._num_drafted >= self._pause

    def launched(self, *, is_drafted: bool, is_probe: bool) -> None:
        self._num_drafted = 0 if is_probe else self._num_drafted + is_drafted
        if is_probe:
            self._pause = min(2 * self._pause, PROBE_EVERY)
