"""When to start the next verification: now, or after one more step of the drafter.

Waiting is a purchase: one more growth step should add more tokens, over the whole batch, than the
verifier earns in the time the step takes. After a step that came late nothing more is waited for in
this round, and after two rounds that waited in vain not until something comes: a drafter that is
stopped costs two short waits, long before it counts as dead.
"""

from collections.abc import Sequence

from ssd.core.rounds import GrowthSpan

_FADE = 0.9
_FIRST_GUESS_S = 0.003
_IN_A_ROW = 3.0  # a step that starts later than this many forwards after the last did not follow it
# A step is late after this many times its usual time. A message may carry two steps; with 1.5 most
# waiting ended there, with trees shallower than the price asked for.
_PATIENCE = 3.0
_SILENT_AFTER = 2  # waits in a row without any arrival; one may be a thread that was not scheduled
_LAG = 1.5
_LEAST_SHARE = 0.4


def share_to_beat(step_s: float, forward_s: float) -> float:
    """How much of the price waiting for a growth step must beat.

    All of it where many steps fit under a verification. Where few do, what a text gets is bounded
    by the steps grown for it, and one more is worth more than what it adds to this round.
    """
    return max(1.0 - _LAG * step_s / forward_s, _LEAST_SHARE)


class DrafterPace:
    """Seconds that one more growth step takes, as the verifier sees it.

    Two things teach it: the drafter's own record of steps that followed one another, and how long
    the verifier really waited for a message, delay included.
    """

    def __init__(self) -> None:
        self._step_s: float | None = None
        self._last: GrowthSpan | None = None
        self._num_in_vain = 0

    @property
    def is_silent(self) -> bool:
        """Whether the last waits were in vain, and nothing came since."""
        return self._num_in_vain >= _SILENT_AFTER

    def heard(self) -> None:
        """Something came."""
        self._num_in_vain = 0

    def waited_in_vain(self) -> None:
        """A round's patience ended without any arrival."""
        self._num_in_vain += 1

    def observe(self, seconds: float) -> None:
        known_s = seconds if self._step_s is None else self._step_s
        self._step_s = _FADE * known_s + (1.0 - _FADE) * seconds

    def grew(self, spans: Sequence[GrowthSpan]) -> None:
        """Learn from steps; only those in a row, a drafter that slept says nothing of its pace."""
        for span in spans:
            last, self._last = self._last, span
            if last is not None and span.step == last.step + 1:
                period_ns = span.start_ns - last.start_ns
                if period_ns < _IN_A_ROW * (last.end_ns - last.start_ns):
                    self.observe(period_ns / 1e9)

    @property
    def step_s(self) -> float:
        return _FIRST_GUESS_S if self._step_s is None else self._step_s


class Patience:
    """One round's waiting: asked again at every arrival, spent once a step is late."""

    def __init__(self, pace: DrafterPace) -> None:
        self._pace = pace
        self._waiting_since: float | None = None  # first asked, or the last arrival after that
        self._is_spent = False
        self._has_arrived = False

    def arrived(self, now: float) -> None:
        """The drafter sent something."""
        self._has_arrived = True
        self._pace.heard()
        if self._waiting_since is not None:
            waited_s = now - self._waiting_since
            self._is_spent |= waited_s >= _PATIENCE * self._pace.step_s
            self._pace.observe(waited_s)
            self._waiting_since = now

    def wait_until(self, now: float, *, promise: float, tokens_per_s: float) -> float | None:
        """When to ask again, or None to launch; `promise` is what one more step should add."""
        step_s = self._pace.step_s
        if self._is_spent or self._pace.is_silent or promise <= tokens_per_s * step_s:
            return None
        if self._waiting_since is None:
            self._waiting_since = now
        deadline = self._waiting_since + _PATIENCE * step_s
        if now < deadline:
            return deadline
        self._is_spent = True
        if not self._has_arrived:
            self._pace.waited_in_vain()
        return None
