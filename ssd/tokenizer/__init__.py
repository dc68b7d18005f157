"""What a tokenizer is to the services: which id carries which token."""

from ssd.tokenizer.vocabulary import Vocabulary

__all__ = ["Vocabulary"]
