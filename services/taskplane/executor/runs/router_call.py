"""The call of a Router, in an asyncio task of its own that may outlast the request."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final, cast

from taskplane.agents import agent as port
from taskplane.agents.faults import shut, thrown
from taskplane.agents.sources import described
from taskplane.executor.background import BackgroundTasks
from taskplane.runtime import logs, tracing

log = logging.getLogger(__name__)

_END: Final = object()


class _Raised:
    """An exception of the agent; a future does not accept every exception."""

    def __init__(self, error: BaseException) -> None:
        self.error = error


class RouterCall(AsyncIterator[port.Change]):
    """A call of `route`, and the changes of the iterator that it returned, if any.

    All steps run in one asyncio task, from the first step of `route` to the closing of the iterator: libraries must
    leave their contexts in the task in which they entered them. For one event loop; `aclose` ends the call.
    """

    def __init__(
        self,
        route: Callable[["RouterCall"], Awaitable[object]],
        agent: str,
        task_id: str,
        background: BackgroundTasks,
    ) -> None:
        """`route` gets this call, before there is an iterator."""
        # `Turn.cancelled` of the router.
        self.cancelled = asyncio.Event()
        self.read: Callable[[], Awaitable[list[port.Message]]] = no_messages
        self.agent = agent
        self.task_id = task_id
        self._decided: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        self._steps: asyncio.Queue[asyncio.Future[object]] = asyncio.Queue()
        # False: a cancellation of the task comes from the agent itself.
        self._stopped = False
        self._task = background.start(self._work(route), name=f"routing of task {task_id}")
        self._task.add_done_callback(self._ended)

    async def incoming(self) -> list[port.Message]:
        """Return the messages to the run that continues this call; an empty list before that run."""
        return await self.read()

    @property
    def is_decided(self) -> bool:
        """Return whether `route` has returned or raised."""
        return self._decided.done()

    async def wait(self, timeout: float) -> None:
        """Wait until `route` has returned or raised, at most `timeout` seconds."""
        await asyncio.wait((self._decided,), timeout=timeout)

    async def decision(self) -> object:
        """Return the result of `route`. Raises its exceptions."""
        return _given(await asyncio.shield(self._decided))

    def now(self) -> object:
        """Return the result of `route`; None if it has not returned, or raised."""
        found = self._decided.result() if self.is_decided else None
        return None if isinstance(found, _Raised) else found

    @property
    def goes_on(self) -> bool:
        """Return whether a run must continue this call: it is undecided, failed, answered, or returned an iterator."""
        if not self.is_decided:
            return True
        return self._decided.result() is not None and not isinstance(self._decided.result(), port.MakeTask)

    async def __anext__(self) -> port.Change:
        if self._task.done():
            raise StopAsyncIteration
        step: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        self._steps.put_nowait(step)
        change = _given(await step)
        if change is _END:
            raise StopAsyncIteration
        return change  # type: ignore[return-value]  # pyright: ignore[reportReturnType]

    def stop(self) -> None:
        """Cancel the router and close its iterator, without waiting for the end."""
        if not self._stopped:
            self._stopped = True
            self._task.cancel()

    async def aclose(self) -> None:
        """Stop, and wait until the code of the agent has ended."""
        self.stop()
        await asyncio.wait((self._task,))

    async def _work(self, route: Callable[["RouterCall"], Awaitable[object]]) -> None:
        logs.task_id.set(self.task_id)
        try:
            found = await route(self)
        except BaseException as error:
            if not self._stopped:
                log.warning("the router of task %s failed", self.task_id, exc_info=error)
            self._decided.set_result(_Raised(error))
            return
        if isinstance(found, port.MakeTask) and found.reason:
            log.info("creating task %s: %s", self.task_id, found.reason)
            tracing.describe({"taskplane.routing.reason": found.reason})
        self._decided.set_result(found)
        if isinstance(found, AsyncIterator):
            await self._go_on(cast("AsyncIterator[port.Change]", found))

    def _ended(self, _: object) -> None:
        if not self._decided.done():
            self._decided.set_result(_Raised(asyncio.CancelledError("the router was stopped")))

    async def _go_on(self, changes: AsyncIterator[port.Change]) -> None:
        # A cancellation by the agent itself, between two steps.
        canceled: asyncio.CancelledError | None = None
        try:
            while not self._stopped:
                try:
                    step = await self._steps.get()
                except asyncio.CancelledError as error:
                    canceled = error
                    continue
                made: object
                try:
                    made = await (anext(changes, _END) if canceled is None else thrown(changes, canceled))
                except StopAsyncIteration:
                    made = _END
                except BaseException as error:  # noqa: BLE001 - raised where the change is taken
                    made = _Raised(error)
                canceled = None
                if not step.done():
                    step.set_result(made)
        finally:
            await shut(changes)


def _given(found: object) -> object:
    if isinstance(found, _Raised):
        error = found.error
        if isinstance(error, (StopAsyncIteration, GeneratorExit, SystemExit, KeyboardInterrupt)):
            # Raised unchanged, it would end the caller.
            raise RuntimeError(f"the agent raised {described(error)}") from error
        raise error
    return found


async def no_messages() -> list[port.Message]:
    """Return the messages to a turn that has no task yet."""
    return []
