"""The verifier's engine: the core's rounds, run by the target and drawn by the coupled rule."""

import time
from collections.abc import Sequence

from torch import Tensor

from ssd.core.ids import SessionId
from ssd.core.messages import Open
from ssd.core.rows import Runner
from ssd.core.verifier import Idle, Output, ReleaseKv, Round, Share, Verifier
from ssd.sampling import DrawSpec, NoiseRows, target_token_ids


class VerifierMachine:
    """Runs on the engine thread; owns the core, the runner and the sessions' noise."""

    def __init__(self, core: Verifier, runner: Runner[Tensor]) -> None:
        self.core = core
        self._runner = runner
        self._noise: dict[SessionId, NoiseRows] = {}

    @staticmethod
    def now() -> float:
        """Seconds of the clock that all of the core's times are on."""
        return time.monotonic()

    def turn(self) -> tuple[list[Output], float | None]:
        """Run a round if there is one; see `ssd.engine.engine_thread.Machine`."""
        action = self.core.next_action(self.now())
        if isinstance(action, Idle):
            return [], action.until
        return self._run(action), 0.0

    def release(self, outputs: Sequence[Output]) -> None:
        """Free what the core let go."""
        for output in outputs:
            if isinstance(output, ReleaseKv):
                self._runner.release(output.session_id)
                self._noise.pop(output.session_id, None)

    def _run(self, planned: Round) -> list[Output]:
        launch_s = self.now()
        logits = self._runner.forward(planned.groups)  # [wanted rows of all sessions, vocab]
        draws = [draw for share in planned.shares for draw in self._draws(share)]
        token_ids = target_token_ids(logits, draws) if draws else []
        end_s = self.now()
        per_share, start = [], 0
        for share in planned.shares:
            end = start + len(share.rows.wanted)
            per_share.append(token_ids[start:end])
            start = end
        return self.core.round_done(planned, per_share, launch_s=launch_s, end_s=end_s)

    def _draws(self, share: Share) -> list[DrawSpec]:
        """How each wanted row becomes the target's next token, one position after the row's."""
        opening = share.session.opening
        noise = None if opening.params.is_greedy else self._noise_of(opening)
        return [
            DrawSpec(opening.params, share.rows.positions[row] + 1, noise)
            for row in share.rows.wanted
        ]

    def _noise_of(self, opening: Open) -> NoiseRows:
        noise = self._noise.get(opening.session_id)
        if noise is None:
            noise = NoiseRows(opening.params.seed, self.core.limits.vocab_size)
            self._noise[opening.session_id] = noise
        return noise
