"""Edits of the logits that depend on the text before the token that is drawn.

Order and definitions are vLLM's; they come before every cut and before the temperature:

1. A banned sequence: its last token gets -inf where its other tokens end the output so far.
2. `end_token_ids` get -inf before output index `min_tokens`.
3. `logit_bias` is added.
4. `repetition_penalty`: logits of tokens in prompt or output are divided by it where positive and
   multiplied by it where negative.
5. `frequency_penalty` times the token's count in the output is subtracted, and `presence_penalty`
   once for a token that is in the output.

Each row of a tree has its own text: the committed one and the path from the root to its node. What
is committed is counted once per session; a row adds its few path tokens. Only the columns of tokens
that the text holds are touched, so the cost does not grow with the vocabulary.
"""

import math
from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from ssd.core.sampling_params import SamplingParams

Path = tuple[int, ...]
"""The tokens between the committed text and the token being drawn."""


class TextEdits:
    """One session's edits and the counts of its committed text. Owned by one thread."""

    def __init__(self, params: SamplingParams, *, prompt_len: int, vocab_size: int) -> None:
        # Ids that a smaller draft does not have are left out: it cannot draw them anyway.
        self._params = params
        self._prompt_len = prompt_len
        self._num_counted = prompt_len if params.repetition_penalty == 1.0 else 0
        self._committed_len = 0
        self._columns: dict[int, int] = {}  # token id -> its place in the two lists below
        self._token_ids: list[int] = []
        self._counts: list[int] = []  # how often the output holds it
        self._banned = [each for each in params.banned_sequences if max(each) < vocab_size]
        self._tail_len = max((len(each) for each in self._banned), default=1) - 1
        self._tail: Path = ()
        self._ends = torch.tensor([each for each in params.end_token_ids if each < vocab_size])
        biases = [each for each in params.logit_bias if each[0] < vocab_size]
        self._biased_ids = torch.tensor([token_id for token_id, _ in biases], dtype=torch.int64)
        self._biases = torch.tensor([bias for _, bias in biases], dtype=torch.float64)

    def follow(self, token_ids: Sequence[int]) -> None:
        """Take the committed text in, prompt included; it only ever grows."""
        self._committed_len = len(token_ids)
        if self._params.has_penalties:
            for index in range(self._num_counted, len(token_ids)):
                self._count(token_ids[index], is_output=index >= self._prompt_len)
            self._num_counted = max(self._num_counted, len(token_ids))
        if self._tail_len:
            start = max(self._prompt_len, len(token_ids) - self._tail_len)
            self._tail = tuple(token_ids[start:])

    def apply(self, rows: Tensor, paths: Sequence[Path]) -> None:
        """Edit `[len(paths), vocab]` logits in place, each row by its own path."""
        for row, path in enumerate(paths):
            banned = self._banned_after((*self._tail, *path))
            if banned:
                rows[row, banned] = -math.inf
        early = [row for row, path in enumerate(paths) if self._is_early(path)]
        if early and len(self._ends):
            index = torch.tensor(early, device=rows.device)
            rows[index.unsqueeze(1), self._ends.to(rows.device)] = -math.inf
        if len(self._biases):
            ids = self._biased_ids.to(rows.device)
            rows[:, ids] = rows[:, ids] + self._biases.to(rows)
        if self._params.has_penalties:
            self._penalise(rows, paths)

    def _count(self, token_id: int, *, is_output: bool) -> None:
        column = self._columns.setdefault(token_id, len(self._token_ids))
        if column == len(self._token_ids):
            self._token_ids.append(token_id)
            self._counts.append(0)
        self._counts[column] += is_output

    def _banned_after(self, output: Path) -> list[int]:
        """The tokens that would complete a banned sequence after this end of the output."""
        return [
            sequence[-1]
            for sequence in self._banned
            if len(sequence) == 1 or output[-len(sequence) + 1 :] == sequence[:-1]
        ]

    def _is_early(self, path: Path) -> bool:
        return self._committed_len + len(path) - self._prompt_len < self._params.min_tokens

    def _penalise(self, rows: Tensor, paths: Sequence[Path]) -> None:
        new_ids = {each for path in paths for each in path if each not in self._columns}
        token_ids = [*self._token_ids, *new_ids]
        if not token_ids:
            return
        columns = self._columns | {each: i for i, each in enumerate(new_ids, len(self._columns))}
        counts = np.tile(np.array([*self._counts, *(0 for _ in new_ids)]), (len(paths), 1))
        is_in_text = np.zeros(counts.shape, dtype=bool)
        is_in_text[:, : len(self._columns)] = True
        for row, path in enumerate(paths):
            for token_id in path:
                counts[row, columns[token_id]] += 1
                is_in_text[row, columns[token_id]] = True
        ids = torch.tensor(token_ids, device=rows.device)
        rows[:, ids] = self._penalised(
            rows[:, ids],
            torch.from_numpy(counts).to(rows.device),
            torch.from_numpy(is_in_text).to(rows.device),
        )

    def _penalised(self, logits: Tensor, counts: Tensor, is_in_text: Tensor) -> Tensor:
        """All three are `[num_rows, num_ids]`."""
        params = self._params
        if params.repetition_penalty != 1.0:
            repetition = params.repetition_penalty
            repeated = torch.where(logits > 0, logits / repetition, logits * repetition)
            logits = torch.where(is_in_text, repeated, logits)
        if params.frequency_penalty:
            logits = logits - params.frequency_penalty * counts.to(logits.dtype)
        if params.presence_penalty:
            logits = logits - params.presence_penalty * (counts > 0).to(logits.dtype)
        return logits


class PathEdits(NamedTuple):
    """The edits of one row: its session's, at the end of its own path."""

    text: TextEdits
    path: Path


class Edited(Protocol):
    """How a row is drawn, as far as it matters here."""

    @property
    def edits(self) -> PathEdits | None: ...


def edit_logits(logits: Tensor, draws: Sequence[Edited]) -> Tensor:
    """Apply every row's edits to `[num_rows, vocab]`; returns the argument where there are none."""
    if all(draw.edits is None for draw in draws):
        return logits
    edited = logits.clone()
    start = 0
    for _, run in groupby(draws, key=lambda draw: id(draw.edits and draw.edits.text)):
        block = [draw.edits for draw in run]
        first = block[0]
        if first is not None:
            paths = [each.path for each in block if each is not None]
            first.text.apply(edited[start : start + len(block)], paths)
        start += len(block)
    return edited
