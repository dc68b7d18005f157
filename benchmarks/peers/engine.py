"""What the benchmark asks of an engine, whatever is inside it.

Every engine gets the same ids and gives back as many, drawn greedily in float32, with nothing added
in front and no text in between. It may use both cores.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Drafting:
    """How far a draft goes: so many tokens, or until one has a lower probability than this."""

    num_tokens: int
    min_probability: float = 0.0

    def __str__(self) -> str:
        words = f"{self.num_tokens} tokens"
        return f"{words}, p >= {self.min_probability:g}" if self.min_probability else words


CHAINS = tuple(Drafting(count) for count in (2, 3, 4, 5, 6, 8))
"""What is tried of every engine: chains of fixed length."""


@dataclass(frozen=True, slots=True)
class Task:
    """A request; `drafting` None is plain decoding."""

    prompt_ids: tuple[int, ...]
    max_tokens: int
    drafting: Drafting | None


@dataclass(frozen=True, slots=True)
class Answer:
    """What came out. `decode_s` runs from the first token(s) to the last and has seen
    `num_decoded` tokens appear."""

    token_ids: tuple[int, ...]
    total_s: float
    decode_s: float
    num_decoded: int


@dataclass(frozen=True, slots=True)
class Models:
    """The same pair in each format: folders of transformers and of OpenVINO, files of llama.cpp."""

    target: str
    draft: str
    threads: int


class Engine(Protocol):
    """An engine with both models loaded."""

    version: str
    choices: tuple[Drafting, ...]
    """Drafts worth trying: the best of them is what the engine is measured with."""

    def generate(self, task: Task) -> Answer:
        """Decode greedily; `max_tokens` ids unless the model ends its text."""

    def close(self) -> None:
        """Give everything back."""


def decoded(arrivals: Sequence[tuple[float, int]]) -> tuple[float, int]:
    """Seconds between the first arrival and the last, and the tokens after the first arrival.

    `arrivals` are times with the number of tokens that came then.
    """
    first, last = arrivals[0], arrivals[-1]
    return last[0] - first[0], sum(count for _, count in arrivals) - first[1]
