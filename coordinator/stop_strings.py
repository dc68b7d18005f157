"""Finding stop strings in a text that arrives in pieces.

The first stop to be completed ends the text; of several completed by the same character it is the
one that starts first. So the answer depends on the text alone, not on how it was cut into pieces.
Only a tail that a stop could still grow from is held back.
"""

from collections.abc import Sequence


class StopMatcher:
    """Feeds on pieces and returns what may be shown; `matched` is the stop that was found."""

    def __init__(self, stops: Sequence[str], *, are_included: bool = False) -> None:
        self.matched: str | None = None
        self._stops = tuple(stops)
        self._are_included = are_included
        self._held = ""

    def feed(self, piece: str) -> str:
        """The part of the text that can be shown now; nothing more after a match."""
        if self.matched is not None:
            return ""
        text = self._held + piece
        found = [(text.find(stop), stop) for stop in self._stops]
        ends = [(start + len(stop), start, stop) for start, stop in found if start >= 0]
        if ends:
            end, start, self.matched = min(ends)
            self._held = ""
            return text[: end if self._are_included else start]
        num_held = max((_overlap(text, stop) for stop in self._stops), default=0)
        shown = len(text) - num_held
        self._held = text[shown:]
        return text[:shown]

    def flush(self) -> str:
        """What was held back, at the end of a text that no stop ended."""
        held, self._held = self._held, ""
        return held


def _overlap(text: str, stop: str) -> int:
    """The length of the longest end of `text` that is a proper beginning of `stop`."""
    longest = min(len(text), len(stop) - 1)
    return next((size for size in range(longest, 0, -1) if text.endswith(stop[:size])), 0)
