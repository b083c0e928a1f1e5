"""The asyncio task in which an agent answers one message, so that an agent that cancels this task does not cancel its
run."""

import asyncio
from collections.abc import Awaitable, Callable

from taskplane.api.a2a.v1 import a2a_pb2 as a2a

End = tuple["a2a.TaskState.ValueType", a2a.Message | None]
"""The state in which a turn ends, and its last message."""


class AgentTask:
    """The code of an agent at work on one turn, in an asyncio task of its own.

    A timeout of the agent, or its `asyncio.current_task().cancel()`, meets this task, though the run may be waiting for
    the log or commit the end at that moment.
    """

    def __init__(self, work: Callable[["AgentTask"], Awaitable[None]]) -> None:
        """`work` calls `ends_with`, and raises the error of a failed run."""
        # The run canceled it; any other cancellation is the agent's own.
        self.stopped = False
        self._end: asyncio.Future[End] = asyncio.get_running_loop().create_future()
        self._told = asyncio.Event()
        self._goes_on = False
        self._task = asyncio.create_task(self._work(work), name="agent")

    # The agent's side.

    async def ends_with(self, end: End) -> bool:
        """Hand over the end of the turn, and wait until the run has committed it; return whether the agent goes on."""
        self._end.set_result(end)
        while not self._told.is_set():
            try:
                await self._told.wait()
            except asyncio.CancelledError:
                if self.stopped:
                    raise
        return self._goes_on

    def is_ours(self, error: BaseException) -> bool:
        """Return whether an exception that came through the code of the agent is the end of its run."""
        return self.stopped and isinstance(error, asyncio.CancelledError)

    def check(self) -> None:
        """Raise CancelledError if the run has ended, which the agent ignored."""
        if self.stopped:
            raise asyncio.CancelledError

    async def _work(self, work: Callable[["AgentTask"], Awaitable[None]]) -> None:
        try:
            await work(self)
        except BaseException as error:
            if not self._end.done():
                self._end.set_exception(error)
            elif not self.stopped:
                raise

    # The run's side.

    async def end(self) -> End:
        """Return how the agent ended the turn. Raises the error of a failed run."""
        try:
            return await self._end
        except asyncio.CancelledError:
            if not self._end.cancelled():
                # A failure at the same moment is of no more interest.
                self._end.exception()
            raise

    async def finish(self) -> None:
        """Let the agent finish after its final change. Raises errors that are bugs of the agent."""
        self._goes_on = True
        self._told.set()
        await asyncio.wait((self._task,))
        if not self._task.cancelled() and (bug := self._task.exception()) is not None:
            raise bug

    def stop(self) -> None:
        """Cancel the agent; nothing that it yields then is taken."""
        self.stopped = True
        self._told.set()
        self._task.cancel()

    async def close(self) -> None:
        """Wait until the agent has ended. A cancellation meanwhile is handed on to it."""
        self._told.set()
        canceled: asyncio.CancelledError | None = None
        while not self._task.done():
            try:
                await asyncio.wait((self._task,))
            except asyncio.CancelledError as error:
                canceled = error
                self.stop()
        if canceled is not None:
            raise canceled
