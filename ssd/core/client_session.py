"""One request in the coordinator's books: what is committed, and under which epoch it runs.

    admitted ──open──▶ running ──commit*──▶ finished
                          │  ▲
                          └──┘ open, epoch + 1: failover, restart, drain, preemption, a gap

The books are ahead of every client (commit before emit) and never change afterwards. The verifier's
part is rebuilt from them by one operation: `open` with the committed output and a higher epoch.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Self

from ssd.core.errors import ProtocolError
from ssd.core.ids import Epoch, SessionId
from ssd.core.keys import extend_key, key_of
from ssd.core.ledger import Standing
from ssd.core.logprobs import LogprobsWanted, TokenLogprobs
from ssd.core.messages import Commit, Finished, FinishReason, Open, Resume
from ssd.core.mode import Mode
from ssd.core.rounds import GrowthSpan, RoundRecord
from ssd.core.sampling_params import SamplingParams
from ssd.core.speculation_limits import SpeculationLimits
from ssd.core.stop_rules import StopRules

FIRST_EPOCH = Epoch(0)


@dataclass(frozen=True, slots=True)
class Admission:
    """A request with every parameter filled in; what the journal keeps of it."""

    session_id: SessionId
    prompt_token_ids: tuple[int, ...]
    max_len: int
    params: SamplingParams
    stop_token_ids: frozenset[int]
    mode: Mode
    stop_rules: StopRules = field(default_factory=StopRules)
    priority: int = 0
    speculation: SpeculationLimits = field(default_factory=SpeculationLimits)
    logprobs: LogprobsWanted = field(default_factory=LogprobsWanted)
    cache_salt: str | None = ""


class Reconciled(StrEnum):
    """What a verifier's message means for the session."""

    CONTINUE = "continue"  # it extends the books, or repeats them
    STALE = "stale"  # it belongs to an older epoch, or comes after the end
    OPEN = "open"  # something between is missing: open the session anew


class ClientSession:
    """Owns the committed text of one request."""

    def __init__(self, admission: Admission) -> None:
        self.admission = admission
        self.epoch = Epoch(0)
        self.finish_reason: FinishReason | None = None
        self.rounds: list[RoundRecord] = []
        self.growth: list[GrowthSpan] = []
        self.logprobs: list[TokenLogprobs] = []  # of the output, where they are wanted
        self.prompt_logprobs: tuple[TokenLogprobs, ...] = ()
        self._token_ids = list(admission.prompt_token_ids)
        self._key = key_of(admission.prompt_token_ids)

    @property
    def committed_len(self) -> int:
        return len(self._token_ids)

    @property
    def prompt_len(self) -> int:
        return len(self.admission.prompt_token_ids)

    @property
    def output_len(self) -> int:
        return self.committed_len - self.prompt_len

    @property
    def output_token_ids(self) -> tuple[int, ...]:
        return self.output_from(0)

    def output_from(self, index: int) -> tuple[int, ...]:
        """The committed output tokens from output index `index` on."""
        return tuple(self._token_ids[self.prompt_len + index :])

    @property
    def is_finished(self) -> bool:
        return self.finish_reason is not None

    @classmethod
    def restored(
        cls,
        admission: Admission,
        *,
        epoch: Epoch,
        output_token_ids: Sequence[int],
        finish_reason: FinishReason | None,
    ) -> Self:
        """The books as a journal kept them; the figures of earlier rounds are lost."""
        session = cls(admission)
        session.epoch = epoch
        for token_id in output_token_ids:
            session._append(token_id)
        session.finish_reason = finish_reason
        return session

    @property
    def standing(self) -> Standing:
        """What the verifier that runs the session should say of it."""
        return Standing(self.epoch, self.committed_len, self._key)

    def open(self, *, above: Epoch = FIRST_EPOCH) -> Open:
        """The order that starts the session, or moves it: all that is committed, a newer epoch.

        The epoch is also newer than `above`: after a restart the last ones used may be forgotten.
        """
        self.epoch = Epoch(max(self.epoch, above) + 1)
        return Open(
            session_id=self.admission.session_id,
            epoch=self.epoch,
            token_ids=tuple(self._token_ids),
            prompt_len=self.prompt_len,
            max_len=self.admission.max_len,
            params=self.admission.params,
            stop_token_ids=self.admission.stop_token_ids,
            mode=self.admission.mode,
            speculation=self.admission.speculation,
            logprobs=self.admission.logprobs,
            cache_salt=self.admission.cache_salt,
        )

    def commit(self, message: Commit) -> Reconciled:
        """Append what is new in a commit.

        Raises:
            ProtocolError: the commit contradicts tokens that are committed already.
        """
        if message.epoch != self.epoch or self.is_finished:
            return Reconciled.STALE
        known = self.committed_len - message.base_len
        if known < 0 or (known == 0 and message.base_key != self._key):
            return Reconciled.OPEN
        self._check_repeated(message, known)
        for token_id in message.token_ids[known:]:
            self._append(token_id)
        self.logprobs += message.logprobs[known:]
        self.prompt_logprobs = self.prompt_logprobs or message.prompt_logprobs
        if message.record is not None and known == 0:
            self.rounds.append(message.record)
            self.growth.extend(message.growth)
        return Reconciled.CONTINUE

    def finish(self, message: Finished) -> Reconciled:
        """The verifier says the text is complete; it is, if the books have all of it."""
        if message.epoch != self.epoch or self.is_finished:
            return Reconciled.STALE
        if message.total_len != self.committed_len:
            return Reconciled.OPEN
        self.finish_reason = message.reason
        return Reconciled.CONTINUE

    def end_output(self, num_tokens: int) -> None:
        """A stop string ended the text after this many output tokens; those behind never were."""
        del self._token_ids[self.prompt_len + num_tokens :]
        del self.logprobs[num_tokens:]
        self.finish_reason = FinishReason.STOP

    def settle_locally(self) -> FinishReason | None:
        """The end that the books already show, if any: no verifier is needed to finish then."""
        is_begun = self.output_len > 0
        if is_begun and self._token_ids[-1] in self.admission.stop_token_ids:
            self.finish_reason = FinishReason.STOP
        elif self.committed_len >= self.admission.max_len:
            self.finish_reason = FinishReason.LENGTH
        return self.finish_reason

    def resume(self) -> Resume:
        """The order that goes on with a session which a verifier still has, same epoch."""
        return Resume(self.admission.session_id, self.epoch, self.committed_len)

    def _append(self, token_id: int) -> None:
        self._token_ids.append(token_id)
        self._key = extend_key(self._key, token_id)

    def _check_repeated(self, message: Commit, known: int) -> None:
        start = message.base_len
        overlap = self._token_ids[start : start + len(message.token_ids)]
        if overlap != list(message.token_ids[: len(overlap)]) or known > self.committed_len:
            raise ProtocolError(
                f"commit at {message.base_len} contradicts the committed text of session "
                f"{message.session_id} (epoch {message.epoch})"
            )
