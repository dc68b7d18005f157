"""How much speculation a session uses."""

from enum import StrEnum


class Mode(StrEnum):
    """`ssd`: the drafter grows ahead while the verifier works. `sd`: classic speculative decoding,
    a chain of fixed depth drafted while the verifier waits. `ar`: plain decoding, no drafts.
    """

    SSD = "ssd"
    SD = "sd"
    AR = "ar"
