"""Writers of growing text: as it arrives, or as markdown that is redrawn while it grows."""

import sys
from functools import partial
from typing import Protocol, TextIO

from taskplane.cli.render import printable


class Writer(Protocol):
    """A writer of texts by key. Only one text grows at a time; a text with another key closes it."""

    def grow(self, key: str, text: str) -> None:
        """Write the text of `key` so far."""
        ...

    def close(self, key: str, text: str) -> None:
        """Write the whole text of `key`, which grows no more."""
        ...

    def end(self) -> None:
        """End the line of a text that still grows."""
        ...


class PlainWriter:
    """A writer for pipes, which writes each piece as it arrives. A text ends with a line break."""

    def __init__(self, out: TextIO | None = None) -> None:
        """Write to `out`, by default stdout."""
        self._out = out or sys.stdout
        self._open = ""
        self._written: dict[str, str] = {}

    def grow(self, key: str, text: str) -> None:
        """Write the new part of the text; write all of it if it does not continue the written part."""
        if self._open and self._open != key:
            self._break()
        before = self._written.get(key, "")
        if not text.startswith(before):
            self._break()
            before = ""
        if text != before:
            self._open = key
            self._written[key] = text
            self._out.write(printable(text[len(before) :]))
            self._out.flush()

    def close(self, key: str, text: str) -> None:
        """Write the rest of the text, and end its line."""
        self.grow(key, text)
        if self._open == key:
            self._break()

    def end(self) -> None:
        """End the line of a text that still grows."""
        if self._open:
            self._break()

    def _break(self) -> None:
        text = self._written.get(self._open, "")
        if text and not text.endswith("\n"):
            self._out.write("\n")
        self._out.flush()
        self._open = ""


class MarkdownWriter:
    """A writer for terminals, which redraws the end of a text while it grows and the whole text once it is complete."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.live import Live
        from rich.markdown import Markdown

        self._console = Console(highlight=False)
        self._new_live = partial(Live, console=self._console, transient=True, refresh_per_second=12)
        self._draw = Markdown
        self._live: Live | None = None
        self._open = ""
        self._text = ""
        self._done: dict[str, str] = {}

    def grow(self, key: str, text: str) -> None:
        """Redraw the last lines of the text."""
        if self._open and self._open != key:
            self.end()
        rest = printable(text).removeprefix(self._done.get(key, ""))
        if not rest:
            return
        self._open, self._text = key, rest
        if self._live is None:
            self._live = self._new_live()
            self._live.start()
        lines = rest.splitlines()
        self._live.update(self._draw("\n".join(lines[-max(3, self._console.height - 4) :])))

    def close(self, key: str, text: str) -> None:
        """Draw the whole text once."""
        self.grow(key, text)
        self.end()

    def end(self) -> None:
        """Replace the partial drawing by the whole text."""
        if self._live is not None:
            self._live.stop()
            self._live = None
        if self._open:
            self._console.print(self._draw(self._text))
            self._done[self._open] = self._done.get(self._open, "") + self._text
        self._open, self._text = "", ""
