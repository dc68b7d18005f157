"""Text to ids and back, with the target's own tokenizer."""

from collections.abc import Sequence

from tokenizers import Tokenizer
from tokenizers.decoders import DecodeStream

from coordinator.chat_template import ChatTemplate
from ssd.core.errors import ProtocolError


class TextCodec:
    """The tokenizer that a verifier sent."""

    def __init__(self, tokenizer_json: str, chat: ChatTemplate | None = None) -> None:
        """Raises ProtocolError when it sent something else."""
        self.chat = chat or ChatTemplate("")
        try:
            self._tokenizer = Tokenizer.from_str(tokenizer_json)
        except Exception as error:  # tokenizers raises nothing narrower
            raise ProtocolError(f"not a tokenizer: {error}") from error

    def encode(self, text: str) -> tuple[int, ...]:
        """The text's ids, with the special tokens that the tokenizer puts around a prompt."""
        return tuple(self._tokenizer.encode(text).ids)

    def encode_piece(self, text: str) -> tuple[int, ...]:
        """The ids of a text that does not start a prompt: no special tokens around it."""
        return tuple(self._tokenizer.encode(text, add_special_tokens=False).ids)

    def decode(self, token_ids: Sequence[int], *, keep_special_tokens: bool = False) -> str:
        """The text of all ids together; bytes that are no characters become U+FFFD."""
        return self._tokenizer.decode(token_ids, skip_special_tokens=not keep_special_tokens)

    def stream(self) -> "TextStream":
        return TextStream(self._tokenizer)


class TextStream:
    """One output's text, as its ids come in. Special tokens have ids and no text.

    A character whose bytes are spread over tokens appears with the last of them, so what is
    returned can be concatenated and never holds half a character.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._stream = DecodeStream(skip_special_tokens=True)

    def feed(self, token_ids: Sequence[int]) -> str:
        """The whole characters that these ids complete."""
        pieces = (self._stream.step(self._tokenizer, token_id) for token_id in token_ids)
        return "".join(piece for piece in pieces if piece is not None)
