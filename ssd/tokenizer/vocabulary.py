"""The tokens behind the ids, and whether two models mean the same by them.

A draft proposes ids, so its tokenizer must agree with the target's id by id. Special tokens are
kept apart: where only those differ the pair works, and the ids are never drafted. Ids that carry no
token (a model's vocabulary padded to a round number) are no part of this.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from tokenizers import Tokenizer

from ssd.core.errors import ConfigError


@dataclass(frozen=True)
class Vocabulary:
    """Every id that carries a token, which of those are special, and the tokenizer behind them."""

    tokens: Mapping[int, str]
    special_ids: frozenset[int]
    tokenizer: Tokenizer | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        if unknown := self.special_ids - self.tokens.keys():
            raise ValueError(f"special ids without a token: {sorted(unknown)}")

    @classmethod
    def from_file(cls, path: Path) -> "Vocabulary":
        """Read a `tokenizer.json`.

        Raises:
            ConfigError: there is no such file, or it is none.
        """
        try:
            tokenizer = Tokenizer.from_str(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise ConfigError(f"cannot read {path}: {error.strerror}") from error
        except Exception as error:  # tokenizers raises nothing narrower
            raise ConfigError(f"{path} is not a tokenizer: {error}") from error
        return cls.from_tokenizer(tokenizer)

    @classmethod
    def from_tokenizer(cls, tokenizer: Tokenizer) -> "Vocabulary":
        added = tokenizer.get_added_tokens_decoder()
        tokens = {token_id: token for token, token_id in tokenizer.get_vocab().items()}
        special_ids = frozenset(token_id for token_id, token in added.items() if token.special)
        return cls(tokens, special_ids, tokenizer)

    @cached_property
    def digest(self) -> str:
        """Equal digests mean equal tokens behind all ids but the special ones."""
        return _digest(self._ordinary)

    @cached_property
    def special_digest(self) -> str:
        """Equal digests mean equal special tokens."""
        return _digest({token_id: self.tokens[token_id] for token_id in self.special_ids})

    def first_difference(self, draft: "Vocabulary") -> str | None:
        """A sentence about the lowest id on which a draft disagrees with us, the target."""
        differing = self._ordinary.items() ^ draft._ordinary.items()
        if not differing:
            return None
        first = min(token_id for token_id, _ in differing)
        ours, theirs = self._describe(first), draft._describe(first)
        return f"id {first} is {ours} in the target and {theirs} in the draft"

    @cached_property
    def _ordinary(self) -> dict[int, str]:
        return {
            token_id: token
            for token_id, token in self.tokens.items()
            if token_id not in self.special_ids
        }

    def _describe(self, token_id: int) -> str:
        if token_id not in self.tokens:
            return "no token"
        token = json.dumps(self.tokens[token_id], ensure_ascii=False)
        return f"the special token {token}" if token_id in self.special_ids else token


def _digest(tokens: Mapping[int, str]) -> str:
    listed = json.dumps(sorted(tokens.items()), ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(listed.encode("ascii")).hexdigest()
