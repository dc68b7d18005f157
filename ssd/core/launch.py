"""When to start the next verification: now, or after one more step of the drafter.

Waiting is a purchase: one more growth step should add more tokens, over the whole batch, than the
verifier earns in the time the step takes. After a step that came late nothing more is waited for in
this round.
"""

_FADE = 0.9
_FIRST_GUESS_S = 0.003
_PATIENCE = 1.5  # a step is late after this many times its usual time


class DrafterPace:
    """Seconds between a drafter's messages while the verifier waits for them, delay included."""

    def __init__(self) -> None:
        self._step_s = _FIRST_GUESS_S

    def observe(self, seconds: float) -> None:
        self._step_s = _FADE * self._step_s + (1.0 - _FADE) * seconds

    @property
    def step_s(self) -> float:
        return self._step_s


class Patience:
    """One round's waiting: asked again at every arrival, spent once a step is late."""

    def __init__(self, pace: DrafterPace) -> None:
        self._pace = pace
        self._waiting_since: float | None = None  # first asked, or the last arrival after that
        self._is_spent = False

    def arrived(self, now: float) -> None:
        """The drafter sent something."""
        if self._waiting_since is not None:
            waited_s = now - self._waiting_since
            self._is_spent |= waited_s >= _PATIENCE * self._pace.step_s
            self._pace.observe(waited_s)
            self._waiting_since = now

    def wait_until(self, now: float, *, promise: float, tokens_per_s: float) -> float | None:
        """When to ask again, or None to launch; `promise` is what one more step should add."""
        step_s = self._pace.step_s
        if self._is_spent or promise <= tokens_per_s * step_s:
            return None
        if self._waiting_since is None:
            self._waiting_since = now
        deadline = self._waiting_since + _PATIENCE * step_s
        return deadline if now < deadline else None
