"""The drafter's engine: the core's growth steps, run by the draft model and ranked by the race that
the target will run (DESIGN: the coupled rule)."""

import time
from collections.abc import Sequence

import torch
from torch import Tensor

from ssd.core.drafter import Drafter, Output, ReleaseDraftKv, Step, StepShare
from ssd.core.ids import SessionId
from ssd.core.rows import Runner
from ssd.sampling import DrawSpec, NoiseRows, rank_candidates


class DrafterMachine:
    """Runs on the engine thread; owns the core, the runner and the sessions' noise."""

    def __init__(self, core: Drafter, runner: Runner[Tensor], *, vocab_size: int) -> None:
        self.core = core
        self._runner = runner
        self._vocab_size = vocab_size
        self._banned = torch.zeros(vocab_size, dtype=torch.bool)
        growth, chain = core.limits.growth, core.limits.chain
        self._num_candidates = max(growth.num_candidates, chain.num_candidates)
        self._noise: dict[SessionId, NoiseRows] = {}

    def ban(self, token_ids: Sequence[int]) -> list[Output]:
        """Never draft these ids: they mean something else to a target, or nothing."""
        self._banned[[each for each in token_ids if each < self._vocab_size]] = True
        return []

    def turn(self) -> tuple[list[Output], float | None]:
        """Run a growth step if one is worth it; see `ssd.engine.engine_thread.Machine`."""
        step = self.core.next_step()
        if step is None:
            return [], None
        return self._run(step), 0.0

    def release(self, outputs: Sequence[Output]) -> None:
        """Free what the core let go."""
        for output in outputs:
            if isinstance(output, ReleaseDraftKv):
                self._runner.release(output.session_id)
                self._noise.pop(output.session_id, None)

    def _run(self, step: Step) -> list[Output]:
        start_s = time.monotonic()
        logits = self._runner.forward(step.groups)  # [wanted rows of all sessions, vocab]
        draws = [draw for share in step.shares for draw in self._draws(share)]
        candidates = (
            rank_candidates(
                logits,
                draws,
                num_candidates=self._num_candidates,
                banned_token_ids=self._banned,
            )
            if draws
            else []
        )
        end_s = time.monotonic()
        return self.core.step_done(step, candidates, start_s=start_s, end_s=end_s)

    def _draws(self, share: StepShare) -> list[DrawSpec]:
        """The target's next draw after each node, as the target will make it."""
        params = share.session.opening.params
        noise = None if params.is_greedy else self._noise_of(share)
        return [DrawSpec(params, node.position + 1, noise) for node in share.nodes]

    def _noise_of(self, share: StepShare) -> NoiseRows:
        session_id = share.session.runner_id
        noise = self._noise.get(session_id)
        if noise is None:
            noise = NoiseRows(share.session.opening.params.seed, self._vocab_size)
            self._noise[session_id] = noise
        return noise
