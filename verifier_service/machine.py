"""The verifier's engine: the core's rounds, run by the target and drawn by the coupled rule."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

import structlog
import torch
from torch import Tensor

from ssd.core.ids import SessionId
from ssd.core.messages import Open
from ssd.core.rows import Meanwhile, Runner, nothing_meanwhile
from ssd.core.sampling_params import SamplingParams
from ssd.core.verifier import Verifier
from ssd.core.verifier_outputs import CopyKv, Output, ReleaseKv, SessionOver
from ssd.core.verifier_round import Idle, Round, Share
from ssd.engine.device_span import CPU, DeviceSpan
from ssd.sampling import (
    DrawSpec,
    NoiseRows,
    PathEdits,
    TextEdits,
    perturbed_scores,
    target_token_ids,
)
from ssd.sampling.ratio_rule import RatioRule
from verifier_service.logprob_notes import LogprobNotes

_GREEDY = SamplingParams(temperature=0.0)

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class _Done:
    """A round whose target tokens are known and not yet committed."""

    round: Round
    token_ids: list[int]
    launch_s: float
    end_s: float


class VerifierMachine:
    """Runs on the engine thread (`ssd.engine.engine_thread.Machine`); owns core, runner, noise."""

    def __init__(
        self, core: Verifier, runner: Runner[Tensor], *, device: torch.device = CPU
    ) -> None:
        self.core = core
        self._runner = runner
        self._device = device
        self._noise: dict[SessionId, NoiseRows] = {}
        self._edits: dict[SessionId, TextEdits] = {}
        self._logprobs = LogprobNotes()
        self._ratio = RatioRule()
        self._done: _Done | None = None
        self._failed: Round | None = None
        self._wake_at: float | None = None
        self.device_s = 0.0  # spent in forwards and draws

    @staticmethod
    def now() -> float:
        """Seconds of the clock that all of the core's times are on."""
        return time.monotonic()

    def run(self, meanwhile: Meanwhile = nothing_meanwhile) -> bool:
        """Run the core's next round, if it wants one now."""
        action = self.core.next_action(self.now())
        if isinstance(action, Idle):
            self._wake_at = action.until
            self._make_noise_ahead()
            return False
        try:
            self._done = self._verify(action, meanwhile)
        except Exception:  # whatever it is, the rows of some session brought it about
            log.exception("forward failed", round_id=action.round_id, rows=action.num_rows)
            self._failed = action
        return True

    def _verify(self, action: Round, meanwhile: Meanwhile) -> _Done:
        span = DeviceSpan(self._device, self.now)
        # [wanted rows of all sessions, vocab]
        logits = self._runner.forward(action.groups, meanwhile=meanwhile)
        draws = [draw for share in action.shares for draw in self._draws(share)]
        token_ids = self._target_token_ids(logits, draws, action.shares) if draws else []
        self._logprobs.note(action, logits, draws, token_ids)
        launch_s, end_s = span.end()
        self.device_s += end_s - launch_s
        return _Done(action, token_ids, launch_s, end_s)

    def settle(self) -> list[Output]:
        """Commit the round; drafts that came while it ran are in the map by now."""
        if self._failed is not None:
            failed, self._failed = self._failed, None
            return self.core.round_failed(failed)
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
            elif isinstance(output, CopyKv):
                self._runner.copy(output.source, output.target, output.num_slots, held=output.held)
            elif isinstance(output, SessionOver):
                self._noise.pop(output.session_id, None)
                self._edits.pop(output.session_id, None)
                self._logprobs.forget(output.session_id)
                self._ratio.release(output.session_id)

    def _target_token_ids(
        self, logits: Tensor, draws: Sequence[DrawSpec], shares: Sequence[Share]
    ) -> list[int]:
        """Each row's token by its session's rule; all coupled rows are drawn together."""
        coupled = [row for row, draw in enumerate(draws) if draw.params.is_coupled]
        if len(coupled) == len(draws):
            return target_token_ids(logits, draws)
        token_ids = [0] * len(draws)
        if coupled:
            drawn = target_token_ids(logits[coupled], [draws[row] for row in coupled])
            for row, token_id in zip(coupled, drawn, strict=True):
                token_ids[row] = token_id
        start = 0
        for share in shares:
            rows = slice(start, start + len(share.rows.wanted))
            start = rows.stop
            if share.planned is not None and not share.session.opening.params.is_coupled:
                scores = perturbed_scores(logits[rows], draws[rows])
                token_ids[rows] = self._drawn_by_ratio(scores, share)
        return token_ids

    def _drawn_by_ratio(self, scores: Tensor, share: Share) -> list[int]:
        assert share.planned is not None, "a prefill chunk draws nothing"
        opening = share.session.opening
        numbers = self._ratio.numbers_of(opening.session_id, opening.params.seed)
        positions = [share.rows.positions[row] + 1 for row in share.rows.wanted]
        return self._ratio.target_token_ids(scores, share.planned, positions, numbers)

    def _draws(self, share: Share) -> list[DrawSpec]:
        """How each wanted row becomes the target's next token, one position after the row's."""
        opening = share.session.opening
        if share.planned is None:  # prompt rows serve log-probabilities alone, their draws nothing
            return [
                DrawSpec(_GREEDY, share.rows.positions[row] + 1, None) for row in share.rows.wanted
            ]
        is_raced = opening.params.is_coupled and not opening.params.is_greedy
        noise = self._noise_of(opening) if is_raced else None
        edits = self._path_edits(share) if opening.params.edits_logits else {}
        return [
            DrawSpec(opening.params, share.rows.positions[row] + 1, noise, edits.get(node))
            for node, row in enumerate(share.rows.wanted)
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

    def _make_noise_ahead(self) -> None:
        """One row of a large vocabulary while there is nothing else to do, for the next round."""
        for session_id, noise in self._noise.items():
            session = self.core.sessions.get(session_id)
            if session is None:
                continue
            first = session.committed_len
            ahead = range(first, first + self.core.limits.max_nodes)
            missing = next((each for each in ahead if not noise.is_ready(each)), None)
            if missing is not None:
                noise.prefetch([missing])
                return

    def _noise_of(self, opening: Open) -> NoiseRows:
        noise = self._noise.get(opening.session_id)
        if noise is None:
            noise = NoiseRows(opening.params.seed, self.core.limits.vocab_size, device=self._device)
            self._noise[opening.session_id] = noise
        return noise
