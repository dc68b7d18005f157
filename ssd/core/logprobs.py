"""Log-probabilities that travel with tokens, for requests that ask for them.

They are the target's, from the logits that the token was drawn from: penalties, bias and bans
applied, before the temperature and before any cut. Those of prompt tokens are the model's own.
"""

from dataclasses import dataclass

from ssd.core.errors import InvalidRequest

MAX_TOP = 20


@dataclass(frozen=True, slots=True)
class LogprobsWanted:
    """How many of the likeliest tokens to list beside each; None wants no log-probabilities."""

    output_top: int | None = None
    prompt_top: int | None = None

    def __post_init__(self) -> None:
        for name, top in (("top_logprobs", self.output_top), ("prompt_logprobs", self.prompt_top)):
            if top is not None and not 0 <= top <= MAX_TOP:
                raise InvalidRequest(f"{name} must be between 0 and {MAX_TOP}, not {top}", name)


@dataclass(frozen=True, slots=True)
class TokenLogprobs:
    """One token's log-probability, and the likeliest tokens in its place, best first."""

    logprob: float
    top: tuple[tuple[int, float], ...] = ()
