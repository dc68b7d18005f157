"""What the demo asks for: an opening, a request, and a copy task, on which drafts do best."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt, and the few words that show it to a reader."""

    name: str
    text: str
    shown: str


_TALE = (
    "Long ago there lived in a farm near the river a kind child called Rosa. What she loved best"
    " was her white kite.\n\n"
    "One evening in winter the wind blew hard from the west. A dog came to the harbour and said,"
    ' "Nobody is faster than I am." "If I win," said the dog, "you must give me your kite." Ella'
    " and Rosa practised every evening, even in the rain. The dog ran so fast that it lost its"
    " way. She did not run on, because she felt sorry for the dog. They came in together, last of"
    ' all, and people clapped. "You are a better friend than I am," said the dog, and they shared'
    " the plums.\n\n"
    "And Rosa was glad at last. A friend is worth more than a kite."
)
_AGAIN = "Tell it again, but with a bear instead of a dog."
_LINES = (
    "A fox found a red kite by the mill. The fox took the kite home and kept it. In spring the"
    " fox gave the kite to a friend."
)


def _asked(words: str) -> str:
    """The words as a user's turn, in the form of the embedded pair's chat template."""
    return f"<|user|>\n{words}<|end|>\n<|assistant|>\n"


_OPENING = Prompt("opening", "Once upon a time", "Once upon a time")

TALES = (
    _OPENING,
    Prompt(
        "request",
        _asked("Please tell a tale about Mira, Tom and a lantern."),
        "Please tell a tale about Mira, Tom and a lantern.",
    ),
    Prompt("copy", _asked(f"{_TALE}\n\n{_AGAIN}"), f"Long ago there lived ... {_AGAIN}"),
)
"""For the embedded pair `tales`: whole sentences of the text it was trained on."""

PLAIN = (
    _OPENING,
    Prompt("source", "def read_lines(path):\n", "def read_lines(path):"),
    Prompt("copy", f"{_LINES}\n\n{_AGAIN}\n\n", f"A fox found ... {_AGAIN}"),
)
"""For any other pair: short, and without special tokens."""
