"""`taskplane chat`: asks for messages and commands in a terminal or on a pipe, or sends one message of a script."""

import asyncio
import sys
from contextlib import AsyncExitStack, suppress
from importlib import import_module

from taskplane.cli import exits
from taskplane.cli.chat import Chat
from taskplane.cli.client.failures import Failure
from taskplane.cli.connection import Connection, connected, run
from taskplane.cli.delivery import delivered
from taskplane.cli.options import Options, Output
from taskplane.cli.render import printable
from taskplane.cli.report import complain, note
from taskplane.cli.slash import Command, obey, read_line


def chat(options: Options, text: str, session: str) -> int:
    """Sends `text` as it is and shows the answer; without it, asks for messages until the input ends. The exit code."""
    if not text:
        return _converse(options, session)

    async def once(connection: Connection) -> int:
        talk = Chat(connection, options)
        await talk.load(session)
        code = await talk.turn(text)
        talk.farewell()
        return code

    return run(options, once)


def _converse(options: Options, session: str) -> int:
    """Asks and answers until the input ends (Ctrl-D) or is interrupted between two messages."""
    with suppress(ImportError):
        # Loading it is all it takes for input() to edit its line.
        import_module("readline")
    with asyncio.Runner() as runner:
        stack = AsyncExitStack()

        def talked() -> int:
            talk = Chat(runner.run(stack.enter_async_context(connected(options))), options)
            runner.run(talk.load(session))
            talk.show(talk.conversation.messages)
            return _ask_and_answer(runner, talk, options.output)

        try:
            return delivered(talked, options.output)
        except Failure as failure:
            return complain(failure, options.output)
        finally:
            runner.run(stack.aclose())


def _ask_and_answer(runner: asyncio.Runner, talk: Chat, output: Output) -> int:
    while True:
        try:
            line = read_line(_ask(talk))
        except (EOFError, KeyboardInterrupt):
            print(file=sys.stderr)
            talk.farewell()
            return exits.OK
        offered = talk.offer
        try:
            if line and runner.run(_do(talk, line)) == exits.INTERRUPTED and talk.left:
                talk.farewell()
                return exits.INTERRUPTED
        except Failure as failure:
            complain(failure, output)
            if talk.offer and (isinstance(line, str) or talk.offer != offered):
                note("  Your message was not sent.")


async def _do(talk: Chat, line: Command | str) -> int:
    return await (obey(talk, line) if isinstance(line, Command) else talk.turn(line))


def _ask(talk: Chat) -> str:
    """The next line. What is offered stands in it, to be edited, or is shown where there is nobody to edit it."""
    prompt = ("answer> " if talk.asked else "you> ") if sys.stdin.isatty() else ""
    readline = sys.modules.get("readline")
    if readline is None or not (sys.stdin.isatty() and sys.stdout.isatty()):
        if talk.offer:
            note(f"  your text was: {printable(talk.offer)}")
            talk.offer = ""
        # Not by input(), which would write it to an stdout that is no terminal, among the results.
        print(prompt, end="", file=sys.stderr, flush=True)
        return input().strip()
    offer = printable(talk.offer)
    readline.set_startup_hook(lambda: readline.insert_text(offer))
    try:
        line = input(prompt).strip()
    finally:
        readline.set_startup_hook(None)
    if not line:
        talk.offer = ""
    return line
