"""A conversation with an agent: messages and responses, rewinds, and other sessions.

The text of the agent goes to stdout, everything else to stderr. Ctrl-C cancels the task; a second one leaves.
"""

import asyncio
import signal
import sys
from collections.abc import Awaitable, Generator, Iterable
from contextlib import aclosing, contextmanager, suppress
from typing import Any, Final

from taskplane.cli import exits
from taskplane.cli.browser import page_address
from taskplane.cli.connection import Connection
from taskplane.cli.model.cut import Turn
from taskplane.cli.model.session_tasks import SessionTasks, read_session_tasks
from taskplane.cli.model.transcript import Transcript
from taskplane.cli.options import Options
from taskplane.cli.render import content_of, dump, one_line
from taskplane.cli.report import note, report_error
from taskplane.cli.screen import Screen
from taskplane.cli.waiting import telling_why_it_waits
from taskplane.cli.writer import MarkdownWriter, PlainWriter, Writer
from taskplane.client.a2a import A2AClient
from taskplane.client.events import FullTask, Message, Received, read_message, read_task
from taskplane.client.failures import Declined, Ended, Failure, Missing
from taskplane.client.messages import rewind_message, user_message
from taskplane.client.states import PAUSED, State

# The number of sessions to choose from.
_SESSIONS: Final = 20
_EXITS: Final[dict[State, int]] = {
    "failed": exits.FAILED,
    "rejected": exits.FAILED,
    "canceled": exits.INTERRUPTED,
}


class Chat:
    """A conversation on one connection."""

    def __init__(self, connection: Connection, options: Options) -> None:
        self._connection = connection
        self._sessions = connection.sessions
        self._a2a: A2AClient = connection
        self._options = options
        self._writer = self._new_writer()
        self.transcript = Transcript("", self._a2a.endpoint)
        self.left = False
        """Whether a second Ctrl-C ended the last turn."""
        self.over = False
        """Whether the user asked to leave."""
        self.draft = ""
        """A text of the user that was cut by a rewind or not sent, offered to be edited."""

    async def load(self, session: str) -> None:
        """Load a session from the server. Raise `Missing`, and change nothing, if the session does not exist."""
        if not session:
            return
        infos = await self._sessions.task_infos(session)
        tasks = [read_task(task) for task in await self._sessions.tasks(session)]
        listed = {task.id for task in tasks}
        known = [info for info in read_session_tasks({"tasks": infos}).tasks if info.id in listed]
        self.transcript = Transcript(session, self._a2a.endpoint, known)
        self.transcript.load(tasks)

    async def switch(self, session: str, agent: str) -> None:
        """Load another session, and use its agent unless the user named one."""
        before = self._a2a
        self._a2a = self._connection.agent(self._options.agent or agent)
        try:
            await self.load(session)
        except Failure:
            self._a2a = before
            raise
        self.draft = ""
        self.show(self.transcript.messages)

    def begin(self) -> None:
        """Leave the session; the next message begins a new session."""
        self.transcript = Transcript("", self._a2a.endpoint)
        self.draft = ""

    @property
    def asked(self) -> bool:
        """Return whether the agent waits for an answer of the user."""
        return self.transcript.session.latest is not None and self.transcript.session.latest.state in PAUSED

    @property
    def page(self) -> str:
        """Return the address of the session in the web page; before the first message, the address of a new session."""
        return page_address(self._options.url, self.transcript.context_id)

    def show(self, messages: Iterable[Message]) -> None:
        """Print earlier messages of user and agent, in text output only."""
        if self._options.output != "text":
            return
        self._writer = self._new_writer()
        for message in messages:
            if message.role == "user":
                note(f"you> {one_line(content_of(message))}")
            elif content := content_of(message):
                self._writer.close(message.id, content)

    async def turn(self, text: str) -> int:
        """Send one message and show its responses. Return the exit code: 0, 1 if the task failed, 130 if it was
        canceled.

        A message to a task that has ended meanwhile is sent once more, as a new task that refers to it (I6). If the
        session no longer contains the task, since it was changed elsewhere, nothing is sent twice: the session is
        loaded again and the text becomes the draft.
        """
        try:
            return await self._send(text)
        except Ended:
            named = self.transcript.next_message().task_id
            if not named:
                raise
            await self.load(self.transcript.context_id)
            if self.transcript.session.find(named) is None or self.transcript.next_message().task_id:
                note("  the session has changed and was loaded again")
                raise
            return await self._send(text)

    async def turns(self) -> list[Turn]:
        """Return the turns of the session that a rewind can name, as the server has them."""
        await self.load(self.transcript.context_id)
        return self.transcript.turns

    async def rewind(self, number: int, text: str = "") -> int:
        """Rewind to before the turn with this number. A `text` is sent as the next turn; without it, the text that was
        cut becomes the draft.

        Return the exit code of the next turn. A failure changes nothing; but if the rewind was done and only the next
        turn was refused, the session is loaded again. Raise Missing if the turn does not exist; Declined if it is the
        first turn or the server refuses.
        """
        turn = next((turn for turn in await self.turns() if turn.number == number), None)
        if turn is None:
            count = len(self.transcript.turns)
            raise Missing(f"There is no turn {number}; there are {count}.", reason="INVOCATION_NOT_FOUND")
        invocation = turn.message.invocation_id
        cut = self.transcript.rewind(invocation)
        references = self.transcript.next_message().reference_task_ids
        message = rewind_message(self.transcript.context_id, invocation, text, reference_task_ids=references)
        try:
            code = await self._exchange(message, text)
        except Failure as failure:
            if failure.rewound:
                await self._left_by_rewind(number)
            raise
        finally:
            self.transcript.restore()
        if self.transcript.notice:
            self.transcript.unsay(read_message(message))
            self.draft = text
            raise Declined(self.transcript.notice, reason="NOT_REWOUND")
        if not text:
            left = len(self.transcript.messages)
            note(f"  rewound to before turn {number}; {left} messages left; /undo undoes the rewind")
            self.draft = cut
        return code

    async def undo(self) -> None:
        """Undo the last rewind and show the restored messages. Raise Declined without a rewind, or if it is too
        late."""
        before = {message.id for message in self.transcript.messages}
        session = self.transcript.context_id
        if not session:
            raise Declined("There is no session yet.", reason="NO_SESSION", suggestion="Send a message first.")
        done = await self._sessions.undo_rewind(session)
        infos = await self._sessions.task_infos(session)
        self.transcript.undone(map(read_message, done["messages"]), read_session_tasks({"tasks": infos}).tasks)
        self.draft = ""
        note(f"  undone; {len(self.transcript.messages)} messages in effect")
        self.show(message for message in self.transcript.messages if message.id not in before)

    async def tasks(self) -> SessionTasks:
        """Return the tasks of the session, as the server has them."""
        session = self.transcript.context_id
        return read_session_tasks({"tasks": await self._sessions.task_infos(session) if session else []})

    async def sessions(self) -> list[dict[str, Any]]:
        """Return the user's newest sessions."""
        return await self._sessions.find(limit=_SESSIONS)

    def print_session(self) -> None:
        """Print the id of the session, with which the conversation can be continued."""
        if self.transcript.context_id and self._options.output == "text":
            if self.asked:
                note("The agent waits for your answer.")
            note(f"session {self.transcript.context_id}")

    async def _left_by_rewind(self, number: int) -> None:
        """Load the session after a rewind; if the server cannot be reached, remove the cut messages."""
        self.transcript.rewound()
        with suppress(Failure):
            await self.load(self.transcript.context_id)
        note(f"  rewound to before turn {number} all the same; /undo undoes the rewind")

    async def _send(self, text: str) -> int:
        goes_to = self.transcript.next_message()
        message = user_message(
            text,
            session=self.transcript.context_id,
            task=goes_to.task_id,
            reference_task_ids=goes_to.reference_task_ids,
        )
        return await self._exchange(message, text)

    async def _exchange(self, message: dict[str, Any], text: str) -> int:
        """Send a message and show its responses. A message that the server did not accept is removed and becomes the
        draft."""
        self.draft = ""
        sent = read_message(message)
        if text:
            self.transcript.say(sent)
        screen = Screen(self.transcript, self._writer)
        accepted = False
        try:
            with self._interruptible():
                async with telling_why_it_waits(self._queued), aclosing(self._a2a.stream(message)) as stream:
                    async for received in stream:
                        accepted = True
                        self._take(received, screen)
        except Failure:
            if not accepted:
                self.transcript.unsay(sent)
                self.draft = text
            raise
        finally:
            screen.end()
        return exits.INTERRUPTED if self.left else self._outcome()

    def _queued(self) -> Awaitable[FullTask] | None:
        """Return a read of the newest task while it is queued."""
        latest = self.transcript.session.latest
        if latest is None or latest.state != "submitted":
            return None
        return self._a2a.get(latest.id, history_length=0)

    def _new_writer(self) -> Writer:
        terminal = sys.stdout.isatty() and self._options.output == "text"
        return MarkdownWriter() if terminal else PlainWriter()

    def _take(self, received: Received, screen: Screen) -> None:
        if received.resumed_after is not None:
            note(f"  resumed after {received.resumed_after or 'a lost connection'}")
        self.transcript.apply(received.event, answers_rewind=self.transcript.rewinding)
        if self._options.output == "ndjson":
            print(dump(received.data, indent=False), flush=True)
        elif self._options.output == "text":
            screen.update(received.event)

    def _outcome(self) -> int:
        latest = self.transcript.session.latest
        if self._options.output == "json":
            print(dump(self._summary(), indent=True))
        if latest is None:
            return exits.OK
        if latest.error and self._options.output == "text":
            note(f"  {latest.error}")
        return _EXITS.get(latest.state, exits.OK)

    def _summary(self) -> dict[str, Any]:
        latest = self.transcript.session.latest
        answers: list[Message] = []
        for message in reversed(self.transcript.messages):
            if message.role == "user":
                break
            answers.insert(0, message)
        return {
            "contextId": self.transcript.context_id,
            "taskId": latest.id if latest else None,
            "state": latest.state if latest else None,
            "text": "\n".join(filter(None, map(content_of, answers))),
        }

    @contextmanager
    def _interruptible(self) -> Generator[None]:
        """Cancel the task on the first Ctrl-C, and leave the turn on the second one."""
        loop = asyncio.get_running_loop()
        turn = asyncio.current_task()
        cancels: list[asyncio.Task[None]] = []

        def interrupted() -> None:
            if cancels and turn is not None:
                self.left = True
                turn.cancel()
            else:
                note("  canceling; press Ctrl-C again to leave")
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
        task = self.transcript.session.latest_incomplete
        if task is None:
            note("  there is no task to cancel yet")
            return
        try:
            await self._a2a.cancel(task.id)
        except Ended:
            note("  the task has already ended")
        except Failure as failure:
            report_error(failure, self._options.output)
