"""`taskplane chat`: a prompt for messages and commands on a terminal or a pipe, or one message of a script."""

import asyncio
import sys
from contextlib import AsyncExitStack, suppress
from importlib import import_module

from taskplane.cli import exits
from taskplane.cli.chat import Chat
from taskplane.cli.connection import Connection, connected, run
from taskplane.cli.options import Options, Output
from taskplane.cli.render import printable
from taskplane.cli.report import note, report_error
from taskplane.cli.slash import Command, parse_line, run_command
from taskplane.cli.stdout import run_and_flush
from taskplane.client.failures import Failure, NotConnected


def chat(options: Options, text: str, session: str) -> int:
    """Send `text` and show the response; without a text, prompt for messages until the input ends. Return the exit
    code."""
    if not text:
        return _converse(options, session)

    async def once(connection: Connection) -> int:
        talk = Chat(connection, options)
        await talk.load(await connection.session_id(session))
        code = await talk.turn(text)
        talk.print_session()
        return code

    return run(options, once)


def _converse(options: Options, session: str) -> int:
    """Prompt for messages until the input ends (Ctrl-D) or is interrupted between two messages."""
    with suppress(ImportError):
        # With readline loaded, input() edits its line.
        import_module("readline")
    with asyncio.Runner() as runner:
        stack = AsyncExitStack()

        def talked() -> int:
            connection = runner.run(stack.enter_async_context(connected(options)))
            talk = Chat(connection, options)
            runner.run(talk.load(runner.run(connection.session_id(session))))
            talk.show(talk.transcript.messages)
            return _ask_and_answer(runner, talk, options.output)

        try:
            return run_and_flush(talked, options.output)
        except Failure as failure:
            return report_error(failure, options.output)
        finally:
            runner.run(stack.aclose())


def _ask_and_answer(runner: asyncio.Runner, talk: Chat, output: Output) -> int:
    """Prompt until the input ends. Return 0 on a terminal; on a pipe, the exit code of the first line that failed.

    On a pipe nothing is read any more once the server cannot be reached.
    """
    piped = not sys.stdin.isatty()
    code = exits.OK
    while not talk.over:
        try:
            line = parse_line(_ask(talk))
        except (EOFError, KeyboardInterrupt):
            print(file=sys.stderr)
            break
        draft = talk.draft
        try:
            done = runner.run(_do(talk, line)) if line else exits.OK
            if done == exits.INTERRUPTED and talk.left:
                talk.print_session()
                return exits.INTERRUPTED
        except Failure as failure:
            done = report_error(failure, output)
            if talk.draft and (isinstance(line, str) or talk.draft != draft):
                note("  Your message was not sent.")
            if piped and isinstance(failure, NotConnected):
                return code or done
        code = code or done
    talk.print_session()
    return code if piped else exits.OK


async def _do(talk: Chat, line: Command | str) -> int:
    return await (run_command(talk, line) if isinstance(line, Command) else talk.turn(line))


def _ask(talk: Chat) -> str:
    """Return the next line. A draft is put into the line to be edited; if the input is not a terminal, it is
    printed."""
    prompt = ("answer> " if talk.asked else "you> ") if sys.stdin.isatty() else ""
    readline = sys.modules.get("readline")
    if readline is None or not (sys.stdin.isatty() and sys.stdout.isatty()):
        if talk.draft:
            note(f"  your text was: {printable(talk.draft)}")
            talk.draft = ""
        # Not by input(), which would write the prompt to stdout, among the results.
        print(prompt, end="", file=sys.stderr, flush=True)
        return input().strip()
    offer = printable(talk.draft)
    readline.set_startup_hook(lambda: readline.insert_text(offer))
    try:
        line = input(prompt).strip()
    finally:
        readline.set_startup_hook(None)
    if not line:
        talk.draft = ""
    return line
