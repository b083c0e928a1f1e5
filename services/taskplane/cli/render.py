"""Text forms of events and tasks for a terminal."""

import json
import shutil
import sys
from collections.abc import Iterator, Sequence
from datetime import datetime
from textwrap import indent
from typing import Any

from taskplane.cli.asked import Action, asked_in
from taskplane.cli.options import Output
from taskplane.client.events import ArtifactUpdate, Event, FullTask, Json, Message, StatusUpdate, Tool
from taskplane.client.task_log import Logged
from taskplane.runtime import json_lines

_WIDTH = 100
_NARROWEST = 5
CUT = "…"
"""Stands for the rest of a text that does not fit."""


def one_line(text: str, width: int = _WIDTH) -> str:
    """Return the text on one line of at most `width` characters, without control characters."""
    flat = " ".join(printable(text).split())
    return flat if len(flat) <= width else f"{flat[: width - 1]}{CUT}"


def time_text(iso: str) -> str:
    """Return a time of JSON to the second, without its zone; "" for ""."""
    return iso[:19].replace("T", " ")


def printable(text: str) -> str:
    """Return the text without control characters other than line breaks and tabs, so that agents cannot control a
    terminal."""
    return "".join(char for char in text if char in "\n\t" or ((char.isprintable() or char.isspace()) and char >= " "))


def tool_line(tool: Tool) -> str:
    """Return a tool call or its result as one line."""
    body = one_line(json_lines.encode_text(tool.body))
    return f"→ {tool.name} {body}" if tool.called else f"← {tool.name} {body}"


def content_of(message: Message) -> str:
    """Return the text of a message, then of each data part the actions that it asks for and all of it as JSON; not of a
    part with actions that the text names."""
    blocks = [message.text] if message.text else []
    for data in message.data:
        asked = list(asked_in(data))
        if message.text and asked and all(action.name and action.name in message.text for action in asked):
            continue
        # Indented lines are a block of code in markdown.
        blocks += [*(block for action in asked for block in _action(action)), indent(_sorted(data, 2), "    ")]
    return "\n\n".join(blocks)


def _action(action: Action) -> Iterator[str]:
    if action.words:
        yield action.words
    if action.name:
        args = "" if action.args is None else f" {_sorted(action.args)}"
        yield f"    → {action.name}{args}"


def _sorted(data: Any, spaces: int | None = None) -> str:
    """Return JSON with members in a fixed order: objects of the protocol have no order."""
    return json.dumps(data, indent=spaces, sort_keys=True, ensure_ascii=False)


def text_of(event: Event | None) -> str:
    """Return the text of an event as one line."""
    match event:
        case Message() as message:
            return _said(message)
        case StatusUpdate(message=Message() as message) | FullTask(message=Message() as message):
            return _said(message)
        case FullTask(history=[*_, last]):
            return _said(last)
        case ArtifactUpdate(artifact=artifact):
            name = artifact.name or artifact.id
            return one_line(f"{name}: {''.join(map(_part, artifact.parts))}")
        case _:
            return ""


def log_line(logged: Logged, before: datetime | None) -> str:
    """Return one line of a task's log: time, seconds since the event before, number, state or kind, text."""
    time = time_of(logged)
    delta = (time - before).total_seconds() if before else 0.0
    what = logged.state or str(logged.record.get("kind") or "event")
    head = f"{time.astimezone():%H:%M:%S}.{time.microsecond // 1000:03d}  +{delta:.3f}s  #{logged.generation}"
    return f"{head}  {what}  {text_of(logged.event)}".rstrip()


def time_of(logged: Logged) -> datetime:
    """Return the time when the event was written."""
    return datetime.fromisoformat(str(logged.record["time"]))


def dump(value: Any, *, indent: bool) -> str:
    """Return JSON, indented for people or on one line for programs."""
    return json_lines.encode_text(value, indent=2 if indent else None)


def print_json(value: Any, output: Output) -> None:
    """Print JSON, indented unless the output is one line for each result."""
    print(dump(value, indent=output == "json"))


def print_list(found: Sequence[Any], table: Sequence[Sequence[str]], nothing: str, output: Output) -> None:
    """Print a list as JSON, one line for each element, or a table; `nothing` is said on stderr in place of an empty
    table."""
    if output == "json":
        print_json(found, output)
    elif output == "ndjson":
        print("".join(f"{dump(one, indent=False)}\n" for one in found), end="")
    elif found:
        print(columns(table))
    else:
        print(nothing, file=sys.stderr)


def columns(rows: Sequence[Sequence[str]], width: int | None = None) -> str:
    """Return rows as aligned columns; the last column is not padded.

    Lines have at most `width` characters, by default the width of the terminal: the widest columns are cut, with an
    ellipsis, and narrow columns stay whole. A cut id still names its task or session.
    """
    if width is None and sys.stdout.isatty():
        width = shutil.get_terminal_size().columns
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    if width is not None:
        widths = _fitting(widths, width - 2 * (len(widths) - 1))
        rows = [[_cut(cell, most) for cell, most in zip(row, widths, strict=True)] for row in rows]
    padded = (
        "  ".join([*(cell.ljust(width) for cell, width in zip(row[:-1], widths, strict=False)), row[-1]]).rstrip()
        for row in rows
    )
    return "\n".join(padded)


def _fitting(widths: Sequence[int], room: int) -> list[int]:
    """Return the widths of columns that fit into `room` together: the widest columns are made equal until they fit, but
    no column gets narrower than `_NARROWEST`."""
    found = list(widths)
    while sum(found) > room and max(found) > _NARROWEST:
        widest = max(found)
        # The last of the widest, since it has the least telling text.
        found[len(found) - 1 - found[::-1].index(widest)] = widest - 1
    return found


def _cut(cell: str, most: int) -> str:
    return cell if len(cell) <= most else f"{cell[: most - 1]}{CUT}"


def _said(message: Message) -> str:
    data = map(json_lines.encode_text, message.data)
    return one_line(" ".join([message.text, *data, *map(tool_line, message.tools)]))


def _part(part: Json) -> str:
    if isinstance(part.get("text"), str):
        return str(part["text"])
    if "data" in part:
        return json_lines.encode_text(part["data"])
    return str(part.get("url") or f"<{part.get('filename') or 'bytes'}>")
