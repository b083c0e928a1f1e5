"""How growing text is written: as it comes, or as markdown that is drawn anew while it grows."""

import sys
from functools import partial
from typing import Protocol, TextIO

from taskplane.cli.render import printable


class Writer(Protocol):
    """Takes texts by key. Only one grows at a time; another key closes the one before."""

    def grow(self, key: str, text: str) -> None:
        """The text of `key` so far."""
        ...

    def close(self, key: str, text: str) -> None:
        """The whole text of `key`, which grows no more."""
        ...

    def end(self) -> None:
        """Whatever still grows stays as it is."""
        ...


class PlainWriter:
    """Writes each piece as it comes: what a pipe wants. A text ends with a line break."""

    def __init__(self, out: TextIO | None = None) -> None:
        """`out`: stdout unless given."""
        self._out = out or sys.stdout
        self._open = ""
        self._written: dict[str, str] = {}

    def grow(self, key: str, text: str) -> None:
        """Writes what is new of the text; a text that is another one than before is written anew."""
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
        """Writes what is missing of the text, and ends its line."""
        self.grow(key, text)
        if self._open == key:
            self._break()

    def end(self) -> None:
        """Ends the line of what still grows."""
        if self._open:
            self._break()

    def _break(self) -> None:
        text = self._written.get(self._open, "")
        if text and not text.endswith("\n"):
            self._out.write("\n")
        self._out.flush()
        self._open = ""


class MarkdownWriter:
    """Draws markdown on a terminal: the end of it while it grows, the whole once it is complete."""

    def __init__(self) -> None:
        """On stdout, which should be a terminal."""
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
        """Draws the last lines of the text anew."""
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
        """Draws the whole text, once."""
        self.grow(key, text)
        self.end()

    def end(self) -> None:
        """Replaces what was drawn while it grew by the whole."""
        if self._live is not None:
            self._live.stop()
            self._live = None
        if self._open:
            self._console.print(self._draw(self._text))
            self._done[self._open] = self._done.get(self._open, "") + self._text
        self._open, self._text = "", ""
