"""What a client may say about how tokens are drawn."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from ssd.core.errors import InvalidRequest
from ssd.core.rule import Rule

MAX_SEED = 2**64 - 1
MAX_LOGIT_BIASES = 1_024
MAX_BANNED_SEQUENCES = 1_024
MAX_BANNED_LEN = 64


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """Turns logits into a law. The same values rule the target's draw and the drafter's guess.

    Temperature 0 means argmax. `top_k` 0 and `top_p` 1 switch those cuts off; a `top_k` above the
    vocabulary is clamped. `min_p` drops tokens less likely than `min_p` times the likeliest. What
    depends on the text before a token (the rest) is defined in `ssd.sampling.text_edits`.
    `end_token_ids` may not be drawn before output index `min_tokens`.
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    seed: int = 0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    logit_bias: tuple[tuple[int, float], ...] = ()
    banned_sequences: tuple[tuple[int, ...], ...] = ()
    min_tokens: int = 0
    end_token_ids: tuple[int, ...] = ()
    rule: Rule = Rule.COUPLED

    def __post_init__(self) -> None:
        _require(0.0 <= self.temperature <= 2.0, "temperature", "between 0 and 2", self.temperature)
        _require(self.top_k >= 0, "top_k", "0 (off) or more", self.top_k)
        _require(0.0 < self.top_p <= 1.0, "top_p", "above 0 and at most 1", self.top_p)
        _require(0.0 <= self.min_p < 1.0, "min_p", "at least 0 and below 1", self.min_p)
        _require(0 <= self.seed <= MAX_SEED, "seed", "an unsigned 64-bit integer", self.seed)
        _require(self.min_tokens >= 0, "min_tokens", "0 or more", self.min_tokens)
        self._check_penalties()
        self._check_lists()

    @property
    def is_greedy(self) -> bool:
        return self.temperature == 0.0

    @property
    def is_coupled(self) -> bool:
        """Whether the seed fixes each draw; at temperature 0 both rules are the argmax."""
        return self.rule is Rule.COUPLED or self.is_greedy

    @property
    def has_penalties(self) -> bool:
        return (
            self.repetition_penalty != 1.0
            or self.presence_penalty != 0.0
            or self.frequency_penalty != 0.0
        )

    @property
    def edits_logits(self) -> bool:
        """Whether logits depend on more than the model: on the text, its length, or a bias."""
        return (
            self.has_penalties
            or bool(self.logit_bias)
            or bool(self.banned_sequences)
            or self.min_tokens > 0
        )

    def _check_penalties(self) -> None:
        # Its inverse has to be a number too, and far smaller ones would overflow a logit.
        repetition, limit = self.repetition_penalty, "between 0.01 and 100"
        _require(0.01 <= repetition <= 100.0, "repetition_penalty", limit, repetition)
        for name in ("presence_penalty", "frequency_penalty"):
            value = getattr(self, name)
            _require(-2.0 <= value <= 2.0, name, "between -2 and 2", value)

    def _check_lists(self) -> None:
        _require_short("logit_bias", len(self.logit_bias), MAX_LOGIT_BIASES)
        for token_id, bias in self.logit_bias:
            _require(-100.0 <= bias <= 100.0, "logit_bias", "between -100 and 100", bias)
            _require(token_id >= 0, "logit_bias", "for ids of 0 or more", token_id)
        if len({token_id for token_id, _ in self.logit_bias}) < len(self.logit_bias):
            raise InvalidRequest("logit_bias names a token id twice", "logit_bias")
        _require_short("bad_words", len(self.banned_sequences), MAX_BANNED_SEQUENCES)
        for sequence in self.banned_sequences:
            if not 0 < len(sequence) <= MAX_BANNED_LEN:
                raise InvalidRequest(
                    f"each of bad_words must be 1 to {MAX_BANNED_LEN} tokens, not {len(sequence)}",
                    "bad_words",
                )


def check_something_is_left(params: SamplingParams, *, vocab_size: int) -> None:
    """Refuse bans that could leave no token to draw, whatever the text.

    Raises:
        InvalidRequest: the last tokens of all bans, and the end tokens, are the whole vocabulary.
    """
    ends: Iterable[int] = params.end_token_ids if params.min_tokens else ()
    banned = {sequence[-1] for sequence in params.banned_sequences} | set(ends)
    if len(banned) >= vocab_size:
        raise InvalidRequest(
            f"bad_words and min_tokens may ban all {vocab_size} ids of the vocabulary, "
            "and one must be left",
            "bad_words" if params.banned_sequences else "min_tokens",
        )


def _require(holds: bool, name: str, limit: str, value: float) -> None:
    if not holds or math.isnan(value):
        raise InvalidRequest(f"{name} must be {limit}, not {value}", name)


def _require_short(name: str, length: int, limit: int) -> None:
    if length > limit:
        raise InvalidRequest(f"{name} may have {limit} entries, not {length}", name)
