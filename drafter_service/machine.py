"""The drafter's engine: the core's growth steps, run by the draft model and ranked by the race that
the target will run (docs/decisions/0001-coupled-rule.md)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import structlog
import torch
from torch import Tensor

from ssd.core.draft_session import DraftSession
from ssd.core.draft_step import Candidates, Step, StepShare
from ssd.core.drafter import Drafter
from ssd.core.drafter_outputs import CopyDraftKv, DraftOver, Output, ReleaseDraftKv, ToVerifier
from ssd.core.errors import InvalidRequest
from ssd.core.ids import KvId
from ssd.core.messages import Close, Commit, Open, Refused
from ssd.core.rows import Meanwhile, Runner, nothing_meanwhile
from ssd.engine.device_span import CPU, DeviceSpan
from ssd.sampling import (
    DrawSpec,
    NoiseRows,
    PathEdits,
    RankedCandidates,
    TextEdits,
    perturbed_scores,
    rank_candidates,
)
from ssd.sampling.draft_law import DraftPolicy, sample_candidates
from ssd.sampling.ratio_rule import RatioNumbers

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class _Done:
    """A growth step whose candidates are known and not yet in the trees."""

    step: Step
    candidates: list[Candidates]
    start_s: float
    end_s: float


class DrafterMachine:
    """Runs on the engine thread (`ssd.engine.engine_thread.Machine`); owns core, runner, noise."""

    def __init__(
        self,
        core: Drafter,
        runner: Runner[Tensor],
        *,
        vocab_size: int,
        device: torch.device = CPU,
        policy: DraftPolicy | None = None,
    ) -> None:
        self.core = core
        self._runner = runner
        self._device = device
        self._vocab_size = vocab_size
        self._nothing_banned = torch.zeros(vocab_size, dtype=torch.bool)
        self._banned: dict[str, Tensor] = {}
        growth, chain = core.limits.growth, core.limits.chain
        self._num_candidates = max(growth.num_candidates, chain.num_candidates)
        self._noise: dict[KvId, NoiseRows] = {}
        self._edits: dict[KvId, TextEdits] = {}
        self._policy = policy or DraftPolicy()
        self._numbers: dict[KvId, RatioNumbers] = {}
        self._done: _Done | None = None
        self._failed: Step | None = None
        self.device_s = 0.0  # spent in forwards and ranking

    def ban(self, token_ids: Sequence[int], *, peer: str) -> list[Output]:
        """Never draft these ids for a verifier: they mean something else to it, or nothing."""
        banned = self._nothing_banned.clone()
        banned[[each for each in token_ids if each < self._vocab_size]] = True
        self._banned[peer] = banned
        return []

    def peer_lost(self, peer: str) -> list[Output]:
        """A verifier's stream ended."""
        self._banned.pop(peer, None)
        return self.core.peer_lost(peer)

    def open(self, opening: Open, *, peer: str) -> list[Output]:
        """Draft for a session, unless its text holds ids that the draft does not have.

        A target whose vocabulary is padded further than the draft's may be given such ids.
        """
        if max(opening.token_ids, default=0) >= self._vocab_size:
            return self._refuse(opening, peer)
        return self.core.open(opening, peer=peer)

    def commit(self, message: Commit, *, peer: str) -> list[Output]:
        """Follow the committed text as far as the draft has its ids."""
        if max(message.token_ids, default=0) >= self._vocab_size:
            return self._refuse(message, peer)
        return self.core.commit(message, peer=peer)

    def run(self, meanwhile: Meanwhile = nothing_meanwhile) -> bool:
        """Run the core's next growth step, if one is worth it."""
        meanwhile()  # before anything else: a verifier may be waiting for what the last one found
        step = self.core.next_step()
        if step is None:
            return False
        try:
            self._done = self._grow(step)
        except Exception:  # whatever it is, the rows of some session brought it about
            log.exception("growth step failed", step=step.number)
            self._failed = step
        return True

    def _grow(self, step: Step) -> _Done:
        span = DeviceSpan(self._device)
        logits = self._runner.forward(step.groups)  # [wanted rows of all sessions, vocab]
        draws = [draw for share in step.shares for draw in self._draws(share)]
        candidates = self._rank(logits, draws, step) if draws else []
        start_s, end_s = span.end()
        self.device_s += end_s - start_s
        return _Done(step, candidates, start_s, end_s)

    def settle(self) -> list[Output]:
        """Hang the candidates below their nodes; commits that came meanwhile are taken in."""
        if self._failed is not None:
            failed, self._failed = self._failed, None
            return self.core.step_failed(failed)
        assert self._done is not None, "settle follows run"
        done, self._done = self._done, None
        return self.core.step_done(
            done.step, done.candidates, start_s=done.start_s, end_s=done.end_s
        )

    def wake_at(self) -> float | None:
        """Nothing happens to a draft by the passing of time."""
        return None

    def release(self, outputs: Sequence[Output]) -> None:
        """Free what the core let go."""
        for output in outputs:
            if isinstance(output, ReleaseDraftKv):
                self._runner.release(output.kv_id)
            elif isinstance(output, CopyDraftKv):
                self._runner.copy(output.source, output.target, output.num_slots, held=output.held)
            elif isinstance(output, DraftOver):
                self._noise.pop(output.kv_id, None)
                self._edits.pop(output.kv_id, None)
                self._numbers.pop(output.kv_id, None)

    def _refuse(self, message: Open | Commit, peer: str) -> list[Output]:
        """Let go of a session that the draft cannot follow."""
        words = f"the text holds ids outside the draft's vocabulary of {self._vocab_size}"
        refusal = Refused(message.session_id, message.epoch, InvalidRequest.__name__, words)
        closed = self.core.close(Close(message.session_id, message.epoch), peer=peer)
        return [*closed, ToVerifier(peer, refusal)]

    def _rank(self, logits: Tensor, draws: Sequence[DrawSpec], step: Step) -> list[Candidates]:
        """Candidates per row by its session's rule: the race's best, or what is drawn here."""
        sessions = [share.session for share in step.shares for _ in share.nodes]
        coupled = [row for row, draw in enumerate(draws) if draw.params.is_coupled]
        if len(coupled) == len(draws):
            return [*self._raced(logits, draws, sessions)]
        candidates: dict[int, Candidates] = {}
        if coupled:
            raced = self._raced(
                logits[coupled], [draws[row] for row in coupled], [sessions[row] for row in coupled]
            )
            candidates |= zip(coupled, raced, strict=True)
        sampled = [row for row in range(len(draws)) if row not in candidates]
        scores = perturbed_scores(logits[sampled], [draws[row] for row in sampled])
        if self._banned:
            banned = self._banned_rows([sessions[row] for row in sampled])
            scores = scores.masked_fill(banned.to(scores.device), -math.inf)
        coins = [
            self._numbers_of(sessions[row]).draft_coins(draws[row].position) for row in sampled
        ]
        drawn = sample_candidates(scores, self._policy, coins, num_candidates=self._num_candidates)
        candidates |= zip(sampled, drawn, strict=True)
        return [candidates[row] for row in range(len(draws))]

    def _raced(
        self, logits: Tensor, draws: Sequence[DrawSpec], sessions: Sequence[DraftSession]
    ) -> list[RankedCandidates]:
        banned = None if not self._banned else self._banned_rows(sessions)
        return rank_candidates(
            logits, draws, num_candidates=self._num_candidates, banned_token_ids=banned
        )

    def _numbers_of(self, session: DraftSession) -> RatioNumbers:
        numbers = self._numbers.get(session.kv_id)
        if numbers is None:
            numbers = RatioNumbers(session.opening.params.seed)
            self._numbers[session.kv_id] = numbers
        return numbers

    def _banned_rows(self, sessions: Sequence[DraftSession]) -> Tensor:
        """[vocab] where all rows are one verifier's, else [rows, vocab]."""
        peers = [session.peer for session in sessions]
        masks = [self._banned.get(peer, self._nothing_banned) for peer in peers]
        return masks[0] if len(set(peers)) == 1 else torch.stack(masks)

    def _draws(self, share: StepShare) -> list[DrawSpec]:
        """The target's next draw after each node, as the target will make it."""
        params = share.session.opening.params
        noise = self._noise_of(share) if params.is_coupled and not params.is_greedy else None
        if not params.edits_logits:
            return [DrawSpec(params, node.position + 1, noise) for node in share.nodes]
        text = self._text_edits(share)
        return [
            DrawSpec(params, node.position + 1, noise, PathEdits(text, node.path))
            for node in share.nodes
        ]

    def _text_edits(self, share: StepShare) -> TextEdits:
        kv_id, opening = share.session.kv_id, share.session.opening
        text = self._edits.get(kv_id)
        if text is None:
            text = TextEdits(
                opening.params, prompt_len=opening.prompt_len, vocab_size=self._vocab_size
            )
            self._edits[kv_id] = text
        text.follow(share.session.token_ids)
        return text

    def _noise_of(self, share: StepShare) -> NoiseRows:
        kv_id = share.session.kv_id
        noise = self._noise.get(kv_id)
        if noise is None:
            noise = NoiseRows(
                share.session.opening.params.seed, self._vocab_size, device=self._device
            )
            self._noise[kv_id] = noise
        return noise
