"""Where a text said the same before: the n-gram form `simple`.

    text    ... a b c d e f g ... a b x d e | ?        The longest run of tokens before the end that
                        ▲                   ▲          was there before says what comes next.
                      source               end

A text that copies another follows its *source*, the place next to the one copied last. When the
copy differs there (a renamed word, a line left out), the run before the end is short and stands in
many places; the one nearest to the source is the right one most often. So nearness counts like a
few more tokens of agreement, and where nothing agrees the token is taken for a replaced one.
"""

from collections.abc import Sequence

from ssd.core.ngram_limits import NgramLimits

_PLACES = 8  # remembered of each run: the last ones
_NEAR = 16  # tokens before or after the source
_NEARNESS = 3  # counts like so many more tokens of agreement
_GUESSES = 4  # in a row, where nothing agrees any more
_BYTES_PER_RUN = 360  # measured, with its places (tests/core/test_ngram.py)


class SuffixIndex:
    """The places of every run of `shortest` tokens, bounded, runs that were seen first go first.

    It reads the text that its owner appends to, and remembers what is before the end alone.
    """

    def __init__(self, text: Sequence[int], limits: NgramLimits) -> None:
        self._text = text
        self._limits = limits
        self._capacity = max(limits.table_bytes // _BYTES_PER_RUN, 1)
        self._places: dict[tuple[int, ...], list[int]] = {}
        self._indexed_len = 0
        self._source: int | None = None
        self._followed_len = 0  # of the text, by the source
        self._num_guesses = 0

    def __len__(self) -> int:
        return len(self._places)

    @property
    def indexed_len(self) -> int:
        return self._indexed_len

    def catch_up(self, max_tokens: int) -> None:
        """Remember runs that end before the text's end, `max_tokens` more of them at most."""
        shortest = self._limits.shortest
        end = min(len(self._text) - 1, self._indexed_len + max_tokens)
        for place in range(self._indexed_len + 1, end + 1):
            if place >= shortest:
                self._remember(tuple(self._text[place - shortest : place]), place)
        self._indexed_len = max(end, self._indexed_len)

    def find(self) -> tuple[int, int] | None:
        """(place, agreement): what follows the end should be what stands from that place on.

        Agreement is how many tokens before both are equal, at most `size_n`.
        """
        source = self._follow()
        best = self._best_place(source)
        self._num_guesses = self._num_guesses + 1 if best is None else 0
        if source is not None and 0 < self._num_guesses <= _GUESSES:
            best = self._place_near(source)
        self._source = None if best is None else best[0]
        self._followed_len = len(self._text)
        return best

    def _follow(self) -> int | None:
        """Where the source stands now: the text went on, and the source with it."""
        if self._source is None:
            return None
        source = self._source + len(self._text) - self._followed_len
        return source if source < len(self._text) else None

    def _best_place(self, source: int | None) -> tuple[int, int] | None:
        shortest, end = self._limits.shortest, len(self._text)
        if end < shortest:
            return None
        places = self._places.get(tuple(self._text[end - shortest :]), ())
        if len(places) < self._limits.min_hits:
            return None
        ranked = [(self._agreement(place), place) for place in places]
        if source is not None and 0 < source < end:
            ranked.append((self._agreement(source), source))
        ranked = [each for each in ranked if each[0] >= shortest]

        def rank(each: tuple[int, int]) -> tuple[int, bool, int]:
            is_near = source is not None and abs(each[1] - source) <= _NEAR
            return each[0] + _NEARNESS * is_near, each[1] == source, each[1]

        best = max(ranked, key=rank, default=None)
        return None if best is None else (best[1], best[0])

    def _place_near(self, source: int) -> tuple[int, int]:
        """The nearest place after the text's last token, or the source: one token was replaced."""
        last, end = self._text[-1], len(self._text)
        near = range(max(source - _NEAR, 1), min(source + _NEAR, end))
        after_last = [place for place in near if self._text[place - 1] == last]
        if after_last:
            return min(after_last, key=lambda place: abs(place - source)), 1
        return source, 0

    def _agreement(self, place: int) -> int:
        """How many tokens before a place and before the end are equal."""
        text, end, longest = self._text, len(self._text), self._limits.size_n
        length = 0
        while length < min(longest, place) and text[place - 1 - length] == text[end - 1 - length]:
            length += 1
        return length

    def _remember(self, run: tuple[int, ...], place: int) -> None:
        places = self._places.get(run)
        if places is None:
            if len(self._places) >= self._capacity:
                del self._places[next(iter(self._places))]
            self._places[run] = [place]
            return
        if len(places) >= _PLACES:
            del places[0]
        places.append(place)
