"""How much speculation a session uses."""

from enum import StrEnum


class Mode(StrEnum):
    """`ssd`: the drafter grows ahead while the verifier works. `sd`: classic speculative decoding,
    a chain of fixed depth drafted while the verifier waits. `ar`: plain decoding, no drafts.
    `shadow`: plain decoding; the drafter grows as in `ssd`, and only the counters see its drafts.
    """

    SSD = "ssd"
    SD = "sd"
    AR = "ar"
    SHADOW = "shadow"

    @property
    def verifies_drafts(self) -> bool:
        """Whether a round may verify more than the bare root."""
        return self in (Mode.SSD, Mode.SD)
