"""The verifier's engine: the core's rounds, run by the target and drawn by the coupled rule."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from ssd.core.ids import SessionId
from ssd.core.messages import Open
from ssd.core.rows import Runner
from ssd.core.sampling_params import SamplingParams
from ssd.core.verifier import Idle, Output, ReleaseKv, Round, SessionOver, Share, Verifier
from ssd.sampling import DrawSpec, NoiseRows, PathEdits, TextEdits, target_token_ids
from verifier_service.logprob_notes import LogprobNotes

_GREEDY = SamplingParams(temperature=0.0)


@dataclass(frozen=True, slots=True)
class _Done:
    """A round whose target tokens are known and not yet committed."""

    round: Round
    token_ids: list[int]
    launch_s: float
    end_s: float


class VerifierMachine:
    """Runs on the engine thread (`ssd.engine.engine_thread.Machine`); owns core, runner, noise."""

    def __init__(self, core: Verifier, runner: Runner[Tensor]) -> None:
        self.core = core
        self._runner = runner
        self._noise: dict[SessionId, NoiseRows] = {}
        self._edits: dict[SessionId, TextEdits] = {}
        self._logprobs = LogprobNotes()
        self._done: _Done | None = None
        self._wake_at: float | None = None
        self.device_s = 0.0  # spent in forwards and draws

    @staticmethod
    def now() -> float:
        """Seconds of the clock that all of the core's times are on."""
        return time.monotonic()

    def run(self) -> bool:
        """Run the core's next round, if it wants one now."""
        action = self.core.next_action(self.now())
        if isinstance(action, Idle):
            self._wake_at = action.until
            return False
        launch_s = self.now()
        logits = self._runner.forward(action.groups)  # [wanted rows of all sessions, vocab]
        draws = [draw for share in action.shares for draw in self._draws(share)]
        token_ids = target_token_ids(logits, draws) if draws else []
        self._logprobs.note(action, logits, draws, token_ids)
        end_s = self.now()
        self.device_s += end_s - launch_s
        self._done = _Done(action, token_ids, launch_s, end_s)
        return True

    def settle(self) -> list[Output]:
        """Commit the round; drafts that came while it ran are in the map by now."""
        assert self._done is not None, "settle follows run"
        done, self._done = self._done, None
        per_share, start = [], 0
        for share in done.round.shares:
            end = start + len(share.rows.wanted)
            per_share.append(done.token_ids[start:end])
            start = end
        outputs = self.core.round_done(
            done.round, per_share, launch_s=done.launch_s, end_s=done.end_s
        )
        return self._logprobs.attach(outputs)

    def wake_at(self) -> float | None:
        return self._wake_at

    def release(self, outputs: Sequence[Output]) -> None:
        """Free what the core let go."""
        for output in outputs:
            if isinstance(output, ReleaseKv):
                self._runner.release(output.kv_id)
            elif isinstance(output, SessionOver):
                self._noise.pop(output.session_id, None)
                self._edits.pop(output.session_id, None)
                self._logprobs.forget(output.session_id)

    def _draws(self, share: Share) -> list[DrawSpec]:
        """How each wanted row becomes the target's next token, one position after the row's."""
        opening = share.session.opening
        if share.planned is None:  # prompt rows serve log-probabilities alone, their draws nothing
            return [
                DrawSpec(_GREEDY, share.rows.positions[row] + 1, None) for row in share.rows.wanted
            ]
        noise = None if opening.params.is_greedy else self._noise_of(opening)
        edits = self._path_edits(share) if opening.params.edits_logits else {}
        return [
            DrawSpec(opening.params, share.rows.positions[row] + 1, noise, edits.get(row))
            for row in share.rows.wanted
        ]

    def _path_edits(self, share: Share) -> dict[int, PathEdits]:
        """What each node's own path does to its logits."""
        assert share.planned is not None
        session_id, opening = share.session.opening.session_id, share.session.opening
        text = self._edits.get(session_id)
        if text is None:
            text = TextEdits(
                opening.params,
                prompt_len=opening.prompt_len,
                vocab_size=self.core.limits.vocab_size,
            )
            self._edits[session_id] = text
        text.follow(share.session.token_ids)
        paths = share.planned.tree.paths()
        return {node: PathEdits(text, path) for node, path in enumerate(paths)}

    def _noise_of(self, opening: Open) -> NoiseRows:
        noise = self._noise.get(opening.session_id)
        if noise is None:
            noise = NoiseRows(opening.params.seed, self.core.limits.vocab_size)
            self._noise[opening.session_id] = noise
        return noise
