"""`taskplane tail`: the log of a task line by line, or the changes of a session."""

from collections.abc import Awaitable
from contextlib import aclosing
from datetime import datetime

from taskplane.cli import exits
from taskplane.cli.connection import Connection, run
from taskplane.cli.options import Options
from taskplane.cli.render import dump, log_line, time_of
from taskplane.cli.report import note, report_error
from taskplane.cli.session_tail import tail_session
from taskplane.cli.waiting import telling_why_it_waits
from taskplane.client.events import FullTask
from taskplane.client.states import State
from taskplane.runtime.errors import Invalid


def tail(options: Options, task_id: str, session_id: str, after: str) -> int:
    """Follow a task or a session, whichever is named. Return 2 unless exactly one is."""
    if bool(task_id) == bool(session_id) or (session_id and after):
        refusal = Invalid(
            "Name either a task, with or without --after, or a session.",
            reason="WHAT_TO_FOLLOW",
            suggestion="taskplane tail TASK [--after CURSOR]        taskplane tail --session ID",
        )
        return report_error(refusal, options.output)
    return tail_session(options, session_id) if session_id else tail_task(options, task_id, after)


def tail_task(options: Options, task_id: str, after: str) -> int:
    """Follow the log from its beginning, or after the cursor `after`, until the task has ended.

    A broken connection is resumed; the number of lost events is computed from the events' numbers and printed. Return 1
    if the task failed or was rejected, else 0.
    """

    async def main(connection: Connection) -> int:
        follow = _Follow(after)
        task = await connection.task_id(task_id)

        def queued() -> Awaitable[FullTask] | None:
            return connection.get(task, history_length=0) if follow.state == "submitted" else None

        events = connection.log.events(task, after=after)
        async with telling_why_it_waits(queued), aclosing(events):
            async for item in events:
                if item.resumed_after is not None:
                    follow.say_resumed(item.resumed_after, item.generation)
                if options.output == "text":
                    print(log_line(item, follow.time), flush=True)
                else:
                    print(dump({"id": item.cursor, **item.record}, indent=False), flush=True)
                follow.time, follow.generation = time_of(item), item.generation
                follow.state = item.state or follow.state
        return exits.FAILED if follow.state in ("failed", "rejected") else exits.OK

    return run(options, main)


class _Follow:
    """The progress in following the log."""

    def __init__(self, after: str) -> None:
        number = after.rpartition("-")[2]
        self.generation = int(number) if number.isdecimal() else 0
        self.time: datetime | None = None
        self.state: State | None = None

    def say_resumed(self, after: str, generation: int) -> None:
        """Print where the log is resumed and how many events are missing, before the first event after a broken
        connection."""
        lost = max(0, generation - self.generation - 1)
        note(f"  resumed after {after or 'the beginning'}, {lost} lost")
