"""Commands within a chat, which begin with a slash."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final

from taskplane.cli import exits
from taskplane.cli.browser import open_page
from taskplane.cli.chat import Chat
from taskplane.cli.render import columns, one_line
from taskplane.cli.report import note
from taskplane.cli.session_text import info_table, session_lines
from taskplane.client.failures import Declined

HELP: Final = """\
/rewind          your turns, with their numbers
/rewind N        undo turn N and all after it; its text is offered as your next input
/rewind N TEXT   the same, and send TEXT instead
/undo            undo the last rewind, as long as no new turn began
/tasks           the tasks of this session
/open            open this session in the web page
/new             begin a new session
/sessions        your sessions, with numbers
/sessions N      continue session N
/quit            leave, as Ctrl-D does
/help            this list
To send a message that begins with a slash, write two slashes. Ctrl-C cancels the task, Ctrl-D leaves."""


@dataclass(frozen=True, slots=True)
class Command:
    """A line `/name argument`; the command may not exist."""

    name: str
    argument: str


def parse_line(line: str) -> Command | str:
    """Return a command, or the message to be sent: a message that begins with a slash is written with two slashes."""
    if line.startswith("//"):
        return line[1:]
    if not line.startswith("/"):
        return line
    name, _, argument = line[1:].partition(" ")
    return Command(name, argument.strip())


async def run_command(talk: Chat, command: Command) -> int:
    """Run a command and return the exit code of the turn that it began, or 0. Raise Declined `UNKNOWN_COMMAND`,
    `WRONG_ARGUMENT`, and failures of the server; then nothing was sent."""
    known = _COMMANDS.get(command.name)
    if known is None:
        meant = get_close_matches(command.name, _COMMANDS, n=1)
        hint = f"Did you mean /{meant[0]}?  " if meant else ""
        raise Declined(
            f"There is no command /{one_line(command.name, 40)}; nothing was sent.",
            reason="UNKNOWN_COMMAND",
            suggestion=f"{hint}/help lists them. To send a message that begins with a slash, write two slashes.",
        )
    return await known(talk, command.argument)


async def _rewind(talk: Chat, argument: str) -> int:
    first, _, text = argument.partition(" ")
    if first:
        return await talk.rewind(_number("rewind", first), text.strip())
    turns = await talk.turns()
    for turn in turns:
        note(f"  {turn.number:>3}  {one_line(turn.message.text, 80)}")
    note("  /rewind N undoes turn N and all after it" if len(turns) > 1 else "  there is nothing to rewind yet")
    return exits.OK


async def _undo(talk: Chat, argument: str) -> int:
    _nothing("undo", argument)
    await talk.undo()
    return exits.OK


async def _tasks(talk: Chat, argument: str) -> int:
    _nothing("tasks", argument)
    session = await talk.tasks()
    _table(info_table(session) if session.tasks else [["no tasks yet"]])
    return exits.OK


async def _sessions(talk: Chat, argument: str) -> int:
    found = await talk.sessions()
    current = talk.transcript.context_id
    if not argument:
        _table(session_lines(found, current) or [["no sessions yet"]])
        return exits.OK
    number = _number("sessions", argument)
    if not 1 <= number <= len(found):
        raise Declined(f"There is no session {number}; there are {len(found)}.", reason="WRONG_ARGUMENT")
    session = found[number - 1]
    await talk.switch(session["id"], str(session.get("agent") or ""))
    note(f"  session {session['id']}  {one_line(str(session.get('title') or ''), 60)}")
    return exits.OK


async def _open(talk: Chat, argument: str) -> int:
    _nothing("open", argument)
    address = talk.page
    note(f"  {address}")
    if not await asyncio.to_thread(open_page, address):
        note("  there is no browser here; open this address in another one")
    return exits.OK


async def _new(talk: Chat, argument: str) -> int:
    _nothing("new", argument)
    talk.begin()
    note("  a new session begins with your next message")
    return exits.OK


async def _quit(talk: Chat, argument: str) -> int:
    _nothing("quit", argument)
    talk.over = True
    return exits.OK


async def _help(talk: Chat, argument: str) -> int:
    for line in HELP.splitlines():
        note(f"  {line}")
    return exits.OK


_COMMANDS: Final[dict[str, Callable[[Chat, str], Awaitable[int]]]] = {
    "rewind": _rewind,
    "undo": _undo,
    "tasks": _tasks,
    "open": _open,
    "new": _new,
    "sessions": _sessions,
    "quit": _quit,
    "help": _help,
}


def _number(command: str, argument: str) -> int:
    if not (argument.isascii() and argument.isdecimal()):
        raise Declined(
            f"/{command} takes a number, not {one_line(argument, 40)}; nothing was sent.",
            reason="WRONG_ARGUMENT",
            suggestion=f"/{command} alone lists them.",
        )
    return int(argument)


def _nothing(command: str, argument: str) -> None:
    if argument:
        raise Declined(f"/{command} takes no argument; nothing was sent.", reason="WRONG_ARGUMENT")


def _table(rows: list[list[str]]) -> None:
    for line in columns(rows).splitlines():
        note(f"  {line}")
