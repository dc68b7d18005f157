"""The text of one output as its token ids come in: whole characters, and the end at a stop string.

It is a function of the ids alone, however they were committed, so it can be rebuilt from the books
at any time. Ids are delivered at once; text waits for whole characters, and for the tail that a
stop string could still grow from. A stop string ends the ids with the token that completed it.
"""

from collections.abc import Sequence

from coordinator.stop_strings import StopMatcher
from coordinator.text_codec import TextCodec
from ssd.core.stop_rules import StopRules


class OutputText:
    """Owns what was read of an output and not taken yet."""

    def __init__(
        self, codec: TextCodec, rules: StopRules, *, min_tokens: int = 0, num_had: int = 0
    ) -> None:
        """`num_had` tokens were shown before, in an earlier call."""
        self.num_tokens = 0
        self._stream = codec.stream()
        self._matcher = StopMatcher(rules.stops, are_included=rules.are_included)
        self._min_tokens = min_tokens
        self._num_had = num_had
        self._untaken: list[str] = []

    @property
    def matched(self) -> str | None:
        """The stop string that ended the text."""
        return self._matcher.matched

    def feed(self, token_ids: Sequence[int]) -> bool:
        """Read the next tokens; whether a stop string ended the text at `num_tokens`."""
        for token_id in token_ids:
            piece = self._stream.feed([token_id])
            self.num_tokens += 1
            if self.num_tokens > self._min_tokens:
                piece = self._matcher.feed(piece)
            if self.num_tokens > self._num_had:
                self._untaken.append(piece)
            if self.matched is not None:
                return True
        return False

    def finish(self) -> None:
        """No more tokens come: nothing is held back any longer."""
        self._untaken.append(self._matcher.flush())

    def take(self) -> str:
        """The text that can be shown and was not taken before."""
        text = "".join(self._untaken)
        self._untaken.clear()
        return text
