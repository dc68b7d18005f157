"""One request as the client saw it."""

from dataclasses import dataclass, field, replace

from ssd.client import Options, Prompt
from ssd.core.messages import FinishReason
from ssd.core.mode import Mode
from ssd.core.rounds import GrowthSpan, Lookup, RoundFigures, RoundRecord, figures_of
from ssd.core.speculation_limits import SpeculationLimits

_BURST = 1.5  # times the speed at which the verifier committed

Question = tuple[Prompt, float, int, int]


@dataclass(frozen=True, slots=True)
class Request:
    """What was asked; requests that differ in nothing but the mode must get the same text."""

    mode: Mode
    temperature: float
    seed: int
    prompt_name: str
    prompt: Prompt
    max_tokens: int
    speculation: SpeculationLimits = field(default_factory=SpeculationLimits)

    @property
    def question(self) -> Question:
        """What all modes must answer alike."""
        return self.prompt, self.temperature, self.seed, self.max_tokens

    @property
    def options(self) -> Options:
        """How to ask for it, rounds included."""
        return Options(
            max_tokens=self.max_tokens,
            temperature=self.temperature,
            seed=self.seed,
            mode=self.mode,
            speculation=self.speculation,
            include_rounds=True,
        )

    def traced(self, traceparent: str) -> Options:
        """How to ask for it as a part of a trace."""
        return replace(self.options, traceparent=traceparent)


@dataclass(frozen=True, slots=True)
class RunRecord:
    """What came back, and when; `ssd.core.rounds` defines the words of the figures."""

    request: Request
    text: str
    token_ids: tuple[int, ...]
    finish_reason: FinishReason
    first_token_s: float  # from sending the request
    last_token_s: float
    rounds: tuple[RoundRecord, ...]
    growth: tuple[GrowthSpan, ...]

    def __post_init__(self) -> None:
        if self.last_token_s < self.first_token_s:
            raise ValueError(
                f"the last token came at {self.last_token_s} s,"
                f" before the first at {self.first_token_s} s"
            )

    @property
    def num_tokens(self) -> int:
        return len(self.token_ids)

    @property
    def tokens_per_s(self) -> float:
        """At the client, the wait for the first token left out; 0 where there is no second."""
        seconds = self.last_token_s - self.first_token_s
        return (self.num_tokens - 1) / seconds if seconds > 0 else 0.0

    @property
    def verifier_tokens_per_s(self) -> float:
        """The same by the clock of the verifier's commits.

        Where it is far below `tokens_per_s` the text came in bursts: something between the verifier
        and us got no CPU time.
        """
        seconds = (self.rounds[-1].end_ns - self.rounds[0].end_ns) / 1e9 if self.rounds else 0.0
        return (self.num_tokens - 1) / seconds if seconds > 0 else 0.0

    @property
    def came_in_bursts(self) -> bool:
        """Whether it reached the client so unevenly that its tokens per second say nothing."""
        return 0 < _BURST * self.verifier_tokens_per_s < self.tokens_per_s

    @property
    def figures(self) -> RoundFigures:
        return figures_of(self.rounds, self.growth, num_tokens=self.num_tokens)

    @property
    def summary(self) -> str:
        """The figures in a line."""
        figures = self.figures
        return (
            f"{self.tokens_per_s:.0f} tokens/s, {figures.tokens_per_round:.2f} tokens per round,"
            f" acceptance {figures.acceptance:.2f}, hit rate {figures.hit_rate:.2f},"
            f" verifier busy {figures.busy:.2f}, overlap {figures.overlap:.2f}"
            f" (of the steps used {figures.useful_overlap:.2f})."
        )

    def as_json(self, *, identical_to_ar: bool) -> dict[str, object]:
        """The run's entry in the report."""
        figures = self.figures
        return {
            "mode": self.request.mode.value,
            "temperature": self.request.temperature,
            "seed": self.request.seed,
            "prompt_name": self.request.prompt_name,
            "prompt": self.request.prompt,
            "text": self.text,
            "finish_reason": self.finish_reason.value,
            "tokens": self.num_tokens,
            "token_ids": list(self.token_ids),
            "first_token_ms": self.first_token_s * 1e3,
            "tokens_per_s": self.tokens_per_s,
            "verifier_tokens_per_s": self.verifier_tokens_per_s,
            "rounds": figures.num_rounds,
            "tokens_per_round": figures.tokens_per_round,
            "acceptance": figures.acceptance,
            "hit_rate": figures.hit_rate,
            "misses": {
                reason.value: figures.misses[reason]
                for reason in (Lookup.MISS_LATE, Lookup.MISS_KEY, Lookup.MISS_ABSENT)
            },
            "verifier_busy": figures.busy,
            "overlap": figures.overlap,
            "useful_overlap": figures.useful_overlap,
            "useful_share": figures.useful_share,
            "verify_ms": figures.verify_ms,
            "wait_ms": figures.wait_ms,
            "identical_to_ar": identical_to_ar,
        }
