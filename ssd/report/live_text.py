"""Text that appears in the terminal while it is generated."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.text import Text

_REDRAW_S = 0.1  # drawing takes the drafter's core: ten times a second reads as a stream
_NOT_PRINTABLE = "\N{REPLACEMENT CHARACTER}"


@dataclass
class LiveText:
    """A framed prompt and what has come after it so far."""

    live: Live
    title: str
    prompt: str
    text: str = ""
    footer: str | None = None
    drawn_s: float = 0.0

    def add(self, text: str) -> None:
        self.text += text
        if time.monotonic() - self.drawn_s >= _REDRAW_S:
            self._draw()

    def finish(self, footer: str) -> None:
        """Draw once more, with the last words and a footer."""
        self.footer = footer
        self._draw()

    def _draw(self) -> None:
        self.live.update(self._panel(), refresh=True)
        self.drawn_s = time.monotonic()

    def _panel(self) -> Panel:
        return Panel(
            Group(Text(self.prompt, style="dim"), Text(printable(self.text))),
            title=self.title,
            title_align="left",
            subtitle=self.footer,
            subtitle_align="right",
            border_style="cyan",
        )


@contextmanager
def live_text(console: Console, *, title: str, prompt: str) -> Iterator[LiveText]:
    """Show a frame that stays when the block ends."""
    with Live(console=console, auto_refresh=False) as live:
        yield LiveText(live, title, prompt)
    if not console.is_terminal:
        console.print()  # elsewhere Live leaves the line open


def printable(text: str) -> str:
    """A model may emit anything; the terminal gets no control characters."""
    return "".join(
        each if each.isprintable() or each in "\n\t" else _NOT_PRINTABLE for each in text
    )
