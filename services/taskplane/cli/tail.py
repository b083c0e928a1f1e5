"""`taskplane tail`: the log of a task, line by line, while it is written, or what becomes of a session."""

from contextlib import aclosing
from datetime import datetime

from taskplane.cli import exits
from taskplane.cli.client.a2a import Resumed
from taskplane.cli.client.states import State
from taskplane.cli.connection import Connection, run
from taskplane.cli.options import Options
from taskplane.cli.render import dump, log_line, time_of
from taskplane.cli.report import note, report_error
from taskplane.cli.session_tail import tail_session
from taskplane.runtime.errors import Invalid


def tail(options: Options, task_id: str, session_id: str, after: str) -> int:
    """Follows a task or a session, whichever is named. Exits with 2 unless it is one of them."""
    if bool(task_id) == bool(session_id) or (session_id and after):
        refusal = Invalid(
            "A task or a session can be followed, and of a task what comes after a cursor.",
            reason="WHAT_TO_FOLLOW",
            suggestion="taskplane tail TASK [--after CURSOR]        taskplane tail --session ID",
        )
        return report_error(refusal, options.output)
    return tail_session(options, session_id) if session_id else tail_task(options, task_id, after)


def tail_task(options: Options, task_id: str, after: str) -> int:
    """Follows the log from its beginning, or after the cursor `after`, until the task has ended.

    A broken connection is taken up again where it was; how many events were lost is said, not assumed: it is the gap in
    the numbers of the events. The exit code: 1 if the task failed or was rejected, else 0.
    """

    async def main(connection: Connection) -> int:
        follow = _Follow(after)
        async with aclosing(connection.log.events(task_id, after=after)) as events:
            async for item in events:
                if isinstance(item, Resumed):
                    follow.resumed = item.cursor or "the beginning"
                    continue
                follow.say_resumed(item.generation)
                if options.output == "text":
                    print(log_line(item, follow.time), flush=True)
                else:
                    print(dump({"id": item.cursor, **item.record}, indent=False), flush=True)
                follow.time, follow.generation = time_of(item), item.generation
                follow.state = item.state or follow.state
        return exits.FAILED if follow.state in ("failed", "rejected") else exits.OK

    return run(options, main)


class _Follow:
    """How far the log was followed."""

    def __init__(self, after: str) -> None:
        number = after.rpartition("-")[2]
        self.generation = int(number) if number.isdecimal() else 0
        self.time: datetime | None = None
        self.state: State | None = None
        self.resumed = ""

    def say_resumed(self, generation: int) -> None:
        """Before the first event after a broken connection: where it goes on, and how many events are missing."""
        if self.resumed:
            lost = max(0, generation - self.generation - 1)
            note(f"  resumed after {self.resumed}, {lost} lost")
            self.resumed = ""
