"""`taskplane chat`: a conversation in a terminal, or one message in a script.

The text of the agent goes to stdout, everything else to stderr. Ctrl-C cancels the task; a second one leaves.
"""

import asyncio
import signal
import sys
from collections.abc import Generator
from contextlib import AsyncExitStack, aclosing, contextmanager, suppress
from importlib import import_module
from typing import Any, Final

from taskplane.cli import exits
from taskplane.cli.client.a2a import Received, Resumed, user_message
from taskplane.cli.client.conversation import Conversation
from taskplane.cli.client.events import Message, classify, read_message, read_task
from taskplane.cli.client.failures import Ended, Failure
from taskplane.cli.client.states import PAUSED, State
from taskplane.cli.connection import Connection, connected, run
from taskplane.cli.options import Options
from taskplane.cli.render import dump, one_line
from taskplane.cli.report import complain, note
from taskplane.cli.screen import Screen
from taskplane.cli.writer import MarkdownWriter, PlainWriter

_EXITS: Final[dict[State, int]] = {
    "failed": exits.FAILED,
    "rejected": exits.FAILED,
    "canceled": exits.INTERRUPTED,
}


def chat(options: Options, text: str, session: str) -> int:
    """Sends `text` and shows the answer; without it, asks for messages until the input ends. The exit code."""
    if not text:
        return _converse(options, session)

    async def once(connection: Connection) -> int:
        talk = Chat(connection, options)
        await talk.load(session)
        code = await talk.turn(text)
        talk.farewell()
        return code

    return run(options, once)


class Chat:
    """One conversation on one connection."""

    def __init__(self, connection: Connection, options: Options) -> None:
        """At its beginning."""
        self.conversation = Conversation()
        self._a2a = connection.a2a
        self._plane = connection.plane
        self._options = options
        self.left = False
        """A second Ctrl-C ended the last turn."""
        terminal = sys.stdout.isatty() and options.output == "text"
        self._writer = MarkdownWriter() if terminal else PlainWriter()

    async def load(self, session: str) -> None:
        """Goes on with a session. `Missing`: there is none with this id."""
        if session:
            self.conversation.context_id = session
            self.conversation.load(map(read_task, await self._plane.session_tasks(session)))

    @property
    def asked(self) -> bool:
        """The agent waits for an answer of the user."""
        return self.conversation.latest is not None and self.conversation.latest.state in PAUSED

    def show_history(self) -> None:
        """What was said before, user and agent."""
        for message in self.conversation.messages:
            if message.role == "user":
                note(f"you> {one_line(message.text)}")
            elif message.text:
                self._writer.close(message.id, message.text)

    async def turn(self, text: str) -> int:
        """One message and all that comes of it. The exit code: 0, 1 if the task failed, 130 if it was canceled.

        A message to a task that has ended meanwhile is sent once more, as a new task that refers to it (I6).
        """
        try:
            return await self._send(text)
        except Ended:
            named = self.conversation.next_message().task_id
            if not named:
                raise
            self.conversation.apply(classify({"task": await self._a2a.task(named)}))
            if self.conversation.next_message().task_id:
                raise
            return await self._send(text)

    def farewell(self) -> None:
        """Says how to go on with this conversation."""
        if self.conversation.context_id and self._options.output == "text":
            if self.asked:
                note("The agent waits for your answer.")
            note(f"session {self.conversation.context_id}")

    async def _send(self, text: str) -> int:
        goes_to = self.conversation.next_message()
        message = user_message(text, context_id=self.conversation.context_id, goes_to=goes_to)
        sent = read_message(message)
        self.conversation.say(sent)
        screen = Screen(self.conversation, self._writer)
        accepted = False
        try:
            with self._interruptible():
                async with aclosing(self._a2a.stream(message)) as stream:
                    async for item in stream:
                        accepted = True
                        self._take(item, screen)
        except Failure:
            if not accepted:
                self.conversation.unsay(sent)
            raise
        finally:
            screen.end()
        return exits.INTERRUPTED if self.left else self._outcome()

    def _take(self, item: Received | Resumed, screen: Screen) -> None:
        if isinstance(item, Resumed):
            note(f"  resumed after {item.cursor or 'a lost connection'}")
            return
        self.conversation.apply(item.event)
        if self._options.output == "ndjson":
            print(dump(item.data, indent=False), flush=True)
        elif self._options.output == "text":
            screen.update(item.event)

    def _outcome(self) -> int:
        latest = self.conversation.latest
        if self._options.output == "json":
            print(dump(self._summary(), indent=True))
        if latest is None:
            return exits.OK
        if latest.error and self._options.output == "text":
            note(f"  {latest.error}")
        return _EXITS.get(latest.state, exits.OK)

    def _summary(self) -> dict[str, Any]:
        latest = self.conversation.latest
        answers: list[Message] = []
        for message in reversed(self.conversation.messages):
            if message.role == "user":
                break
            answers.insert(0, message)
        return {
            "contextId": self.conversation.context_id,
            "taskId": latest.id if latest else None,
            "state": latest.state if latest else None,
            "text": "\n".join(message.text for message in answers if message.text),
        }

    @contextmanager
    def _interruptible(self) -> Generator[None]:
        """The first Ctrl-C cancels the task, the second one leaves."""
        loop = asyncio.get_running_loop()
        turn = asyncio.current_task()
        cancels: list[asyncio.Task[None]] = []

        def interrupted() -> None:
            if cancels and turn is not None:
                self.left = True
                turn.cancel()
            else:
                note("  canceling; once more leaves")
                cancels.append(loop.create_task(self._cancel()))

        loop.add_signal_handler(signal.SIGINT, interrupted)
        try:
            yield
        except asyncio.CancelledError:
            if not self.left or turn is None:
                raise
            turn.uncancel()
        finally:
            loop.remove_signal_handler(signal.SIGINT)
            for cancel in cancels:
                cancel.cancel()

    async def _cancel(self) -> None:
        task = self.conversation.latest_incomplete
        if task is None:
            note("  there is no task to cancel yet")
            return
        try:
            await self._a2a.cancel(task.id)
        except Ended:
            note("  the task had ended already")
        except Failure as failure:
            complain(failure)


def _converse(options: Options, session: str) -> int:
    """Asks and answers until the input ends (Ctrl-D) or is interrupted between two messages."""
    with suppress(ImportError):
        # Loading it is all it takes for input() to edit its line.
        import_module("readline")
    with asyncio.Runner() as runner:
        stack = AsyncExitStack()
        try:
            talk = Chat(runner.run(stack.enter_async_context(connected(options))), options)
            runner.run(talk.load(session))
            talk.show_history()
            return _ask_and_answer(runner, talk)
        except Failure as failure:
            return complain(failure, options.output)
        finally:
            runner.run(stack.aclose())


def _ask_and_answer(runner: asyncio.Runner, talk: Chat) -> int:
    prompts = sys.stdin.isatty()
    while True:
        try:
            text = input(("answer> " if talk.asked else "you> ") if prompts else "").strip()
        except (EOFError, KeyboardInterrupt):
            print(file=sys.stderr)
            talk.farewell()
            return exits.OK
        try:
            if text and runner.run(talk.turn(text)) == exits.INTERRUPTED and talk.left:
                talk.farewell()
                return exits.INTERRUPTED
        except Failure as failure:
            complain(failure)
