"""By which rule the target's tokens are drawn."""

from enum import StrEnum


class Rule(StrEnum):
    """`coupled`: one draw whose noise both sides share; the seed fixes the text. `ratio`: accept a
    drafted token with probability min(1, target / draft), else draw from what is left of the
    target's law; only the law of the text is fixed, because timing decides what is verified.
    """

    COUPLED = "coupled"
    RATIO = "ratio"
