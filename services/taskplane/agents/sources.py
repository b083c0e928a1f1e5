"""Places in the code of authors: file and line."""

import inspect
import linecache
import os
import sysconfig
from collections.abc import Iterator
from types import FrameType, TracebackType
from typing import Final

_LIBRARIES: Final = tuple(
    {
        f"{path}{os.sep}"
        for name, path in sysconfig.get_paths().items()
        if name in ("stdlib", "platstdlib", "purelib", "platlib")
    }
)
_SITE: Final = f"{os.sep}site-packages{os.sep}"
_OURS: Final = "taskplane"


class RaisedElsewhere(Exception):
    """An exception that was raised in another process; the text is its traceback, `at` its `file:line`."""

    def __init__(self, trace: str, at: str = "") -> None:
        super().__init__(trace)
        self.at = at


def described(error: BaseException) -> str:
    """Return an error in one line: its type and its text."""
    if isinstance(error, RaisedElsewhere):
        return str(error).rpartition("\n")[2]
    text = said(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def said(error: BaseException) -> str:
    """Return the text of an error, of a SyntaxError without the place; "" if the `__str__` of the error raises."""
    try:
        return str(error.msg if isinstance(error, SyntaxError) else error)
    except BaseException:  # noqa: BLE001 - code of the author, which may raise anything
        return ""


def place_of(error: BaseException) -> str:
    """Return `file:line` in the author's code: for a SyntaxError the place it names, otherwise the innermost frame of
    the author. Empty if neither the error nor its causes have such a place."""
    found = _found_at(error)
    return _place(*found) if isinstance(found, tuple) else found


def in_parentheses(place: str) -> str:
    """Return " (file:line)", or "" without a place."""
    return f" ({place})" if place else ""


def line_of(error: BaseException) -> str:
    """Return the line of code at `place_of`; "" if it is unknown."""
    found = _found_at(error)
    if not isinstance(found, tuple):
        return ""
    # The file may have changed since a line of it was read.
    linecache.checkcache(found[0])
    return linecache.getline(*found).strip()


def _found_at(error: BaseException) -> tuple[str, int] | str:
    """Return the file and the line of `place_of`, or one text if only a text is known."""
    for cause in _causes(error):
        if isinstance(cause, RaisedElsewhere):
            return cause.at
        if isinstance(cause, SyntaxError) and cause.filename:
            return cause.filename, cause.lineno or 0
        lines = [(frame.f_code.co_filename, line) for frame, line in _frames(cause.__traceback__) if is_author(frame)]
        if lines:
            return lines[-1]
    return ""


def files_of(error: BaseException) -> Iterator[str]:
    """Yield the author's files in an error and its causes: of each traceback, and of each SyntaxError."""
    for cause in _causes(error):
        if isinstance(cause, SyntaxError) and cause.filename:
            yield cause.filename
        yield from (frame.f_code.co_filename for frame, _ in _frames(cause.__traceback__) if is_author(frame))


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error, its cause, the cause of the cause, and so on."""
    looked_at: set[int] = set()
    cause: BaseException | None = error
    # An exception may be among its own causes.
    while cause is not None and id(cause) not in looked_at:
        looked_at.add(id(cause))
        yield cause
        cause = cause.__cause__ or cause.__context__


def defined_at(thing: object) -> str:
    """Return `file:line` of a class or function, or of the class of another object; "" if it is unknown."""
    kind = thing if isinstance(thing, type) or inspect.isfunction(thing) else type(thing)
    try:
        return _place(inspect.getfile(kind), inspect.getsourcelines(kind)[1])
    except (OSError, TypeError):
        return ""


def trimmed(error: BaseException) -> TracebackType | None:
    """Return the traceback of an error from the author's first frame on. Without such a frame, return the whole
    traceback.

    None for a RaisedElsewhere: its text is the traceback.
    """
    if isinstance(error, RaisedElsewhere):
        return None
    part = error.__traceback__
    while part is not None and not is_author(part.tb_frame):
        part = part.tb_next
    return part if part is not None else error.__traceback__


def standing_at(changes: object) -> str:
    """Return `file:line` of the `yield` at which a generator waits; "" if it is unknown or not the author's.

    If `changes` wraps a generator (`yielding`), use the wrapped generator.
    """
    changes = getattr(changes, "yielding", changes)
    frame: FrameType | None = getattr(changes, "ag_frame", None) or getattr(changes, "gi_frame", None)
    return _place(frame.f_code.co_filename, frame.f_lineno) if frame is not None and is_author(frame) else ""


def is_author(frame: FrameType) -> bool:
    """Return whether a frame belongs to the author's code, not to this program or a library."""
    file = frame.f_code.co_filename
    if file.startswith(("<", *_LIBRARIES)) or _SITE in file:
        return False
    # For a module run with `-m`, `__name__` is "__main__"; only `__spec__` has its real name.
    spec = frame.f_globals.get("__spec__")
    name: str = spec.name if spec is not None else frame.f_globals.get("__name__", "")
    return name.partition(".")[0] != _OURS


def _frames(traceback: TracebackType | None) -> Iterator[tuple[FrameType, int]]:
    while traceback is not None:
        yield traceback.tb_frame, traceback.tb_lineno
        traceback = traceback.tb_next


def _place(file: str, line: int) -> str:
    here = os.path.join(os.getcwd(), "")
    return f"{file.removeprefix(here)}:{line}"
