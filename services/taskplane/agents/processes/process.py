"""The process of an agent, seen from the executor: it works on one run at a time, one after the other."""

import asyncio
import contextvars
import logging
import os
import pickle
import signal
import socket
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import fields
from typing import Final

from taskplane.agents import agent as port
from taskplane.agents.faults import AgentProcessDied, AgentProcessGarbled
from taskplane.agents.hosted import Hosted
from taskplane.agents.processes import frames, reports
from taskplane.agents.processes.child import ALIVE_EVERY, EXIT_FENCED, LEAVING
from taskplane.agents.sources import RaisedElsewhere
from taskplane.runtime import logs, tracing

log = logging.getLogger(__name__)

# -u: prints of the agent are seen at once. -P: no file of the working directory hides a module of the library.
_OPTIONS: Final = ("-u", "-P")
_PROGRAM: Final = ("-m", "taskplane.agents.processes.supervisor")
_STDERR: Final = 2
# Seconds that the last frames of a process that has ended may take to arrive.
_SHORTLY: Final = 2.0
# Seconds in which a supervisor kills the processes of an agent; then it is killed itself.
_STUBBORN: Final = 5.0
# Number of simultaneous calls of an agent; the next call is read when one of these has ended.
_CALLS: Final = 64
_NOT_DATA: Final = frozenset({"cancelled", "calls"})


class AgentProcess:
    """A process that has loaded one agent, or is loading it. Made by `start`."""

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        life: int,
    ) -> None:
        """`life`: the end of a pipe that is open as long as the process may live."""
        self._process = process
        self._life = life
        self._reader = reader
        self._writer = writer
        self._turn: port.Turn | None = None
        # The context of the run: its messages are read on behalf of its user.
        self._context = contextvars.Context()
        # Answers of the process to the run at work; at last, how it died.
        self._answers: asyncio.Queue[object] = asyncio.Queue()
        self._beside: list[asyncio.Task[None]] = []
        # Calls of the agent that are being made.
        self._calls: set[asyncio.Task[None]] = set()
        self._room = asyncio.Semaphore(_CALLS)
        # Questions that the process has not answered.
        self._asked = 0
        self._fault: AgentProcessGarbled | None = None
        self.watching = asyncio.create_task(self._watch(), name=f"process {process.pid} of an agent")

    @classmethod
    async def start(cls, hosted: Hosted, environment: Mapping[str, str], *, allow_crash: bool) -> "AgentProcess":
        """Start a process with these variables, which then loads the agent. OSError: it cannot be started."""
        ours, theirs = socket.socketpair()
        watched, life = os.pipe()
        options = (*_OPTIONS, "-B") if sys.dont_write_bytecode else _OPTIONS
        try:
            try:
                process = await asyncio.create_subprocess_exec(
                    sys.executable,
                    *(*options, *_PROGRAM, str(watched), hosted.name),
                    stdin=theirs.fileno(),
                    stdout=_STDERR,
                    env=environment,
                    pass_fds=(watched,),
                    start_new_session=True,
                )
            finally:
                os.close(watched)
                theirs.close()
        except BaseException:
            ours.close()
            os.close(life)
            raise
        try:
            reader, writer = await asyncio.open_unix_connection(sock=ours)
        except BaseException:
            ours.close()
            os.close(life)
            await process.wait()
            raise
        level = logging.getLevelName(logging.getLogger().getEffectiveLevel())
        frames.send(
            writer, frames.Load(source=hosted.source, allow_crash=allow_crash, path=tuple(sys.path), log_level=level)
        )
        return cls(process, reader, writer, life)

    @property
    def alive(self) -> bool:
        """Return whether the process can be given a run."""
        ended = self.watching.done() or self._reader.at_eof() or self._process.returncode is not None
        return not (ended or self._life < 0)

    def begin(self, turn: port.Turn, until: Callable[[], float], method: str) -> None:
        """Begin a run of a method of the agent. `until` returns the end of the certain time of the lease
        (monotonic)."""
        self._turn, self._context = turn, contextvars.copy_context()
        data = {each.name: getattr(turn, each.name) for each in fields(turn) if each.name not in _NOT_DATA}
        data["history"] = tuple(turn.history)
        begin = frames.Begin(
            turn=data,
            method=method,
            until=until(),
            request_id=logs.request_id.get(),
            traceparent=tracing.traceparent(),
        )
        frames.send(self._writer, begin)
        self._beside = [
            asyncio.create_task(self._tell_of_cancel(turn), name="cancel of an agent in a process"),
            asyncio.create_task(self._beat(until), name="signs of life to an agent in a process"),
        ]

    async def next(self) -> port.Change:
        """Return the next change of the run. StopAsyncIteration, AgentError, RaisedElsewhere, AgentProcessDied."""
        answer = await self._ask(frames.Next())
        match answer:
            case reports.Yielded(change):
                return change
            case reports.Ended():
                raise StopAsyncIteration
            case reports.Raised(trace, public, at) if public:
                raise port.AgentError(public) from RaisedElsewhere(trace, at)
            case reports.Raised(trace, _, at):
                raise RaisedElsewhere(trace, at)
            case _:
                raise self._garbled("an answer to another question")

    async def close(self) -> str:
        """Close the run; the process is free for the next one then. Waits while the agent blocks.

        Return the traceback of an exception that the agent raised meanwhile, or "". AgentProcessDied.
        """
        turn, self._turn = self._turn, None
        await self._stop_beside()
        if turn is not None and turn.cancelled.is_set():
            frames.send(self._writer, frames.Cancelled())
        answer = await self._ask(frames.Close())
        while not isinstance(answer, reports.Closed):
            # It is the answer to a Next.
            answer = await self._answered()
        return answer.trace

    def dismiss(self) -> None:
        """Let the process end once no run is at work."""
        self._writer.close()

    def kill(self) -> None:
        """End the process at once, and all that it has started."""
        if self._life < 0:
            return
        os.close(self._life)
        self._life = -1
        asyncio.get_running_loop().call_later(_STUBBORN, self._kill_supervisor)

    def _kill_supervisor(self) -> None:
        if self._process.returncode is None:
            log.error("the supervisor of process %d did not end it; killing the supervisor", self._process.pid)
            with suppress(ProcessLookupError):
                self._process.kill()

    def _garbled(self, what: str) -> AgentProcessGarbled:
        self._fault = self._fault or AgentProcessGarbled(what)
        self.kill()
        return self._fault

    async def _ask(self, frame: object) -> object:
        if self.watching.done():
            raise self._died()
        self._asked += 1
        frames.send(self._writer, frame)
        return await self._answered()

    async def _answered(self) -> object:
        answer = await self._answers.get()
        if isinstance(answer, AgentProcessDied):
            raise answer
        return answer

    async def _watch(self) -> None:
        """Take the frames of the process, until it has ended."""
        reading = asyncio.create_task(self._read())
        ending = asyncio.create_task(self._process.wait())
        try:
            await asyncio.wait((reading, ending), return_when=asyncio.FIRST_COMPLETED)
            if ending.done():
                await asyncio.wait((reading,), timeout=_SHORTLY)
            elif self._fault is None:
                await asyncio.wait((ending,), timeout=LEAVING)
            self.kill()
            await ending
        finally:
            reading.cancel()
            self._writer.close()
            await self._stop_beside()
        self._answers.put_nowait(self._died())

    async def _read(self) -> None:
        try:
            while (report := await reports.receive(self._reader)) is not None:
                if isinstance(report, reports.Call):
                    await self._room.acquire()
                    name = f"{report.method} of an agent"
                    call = asyncio.create_task(self._call(report), name=name, context=self._context)
                    self._calls.add(call)
                    call.add_done_callback(self._called)
                elif self._asked:
                    self._asked -= 1
                    self._answers.put_nowait(report)
                else:
                    raise AgentProcessGarbled("an answer to no question")
        except AgentProcessGarbled as error:
            self._fault = error
            self.kill()

    def _called(self, call: asyncio.Task[None]) -> None:
        self._calls.discard(call)
        self._room.release()

    async def _call(self, call: reports.Call) -> None:
        if self._turn is None:
            return
        try:
            answer = frames.Answer(call.number, await getattr(self._turn.calls, call.method)(*call.arguments))
        except Exception as error:  # noqa: BLE001 - raised in the agent
            answer = frames.Answer(call.number, fault=_sendable(error))
        with suppress(ConnectionError):
            frames.send(self._writer, answer)
            # An agent that takes no answers is asked nothing more.
            await self._writer.drain()

    async def _tell_of_cancel(self, turn: port.Turn) -> None:
        await turn.cancelled.wait()
        frames.send(self._writer, frames.Cancelled())

    async def _beat(self, until: Callable[[], float]) -> None:
        with suppress(ConnectionError):
            while True:
                await asyncio.sleep(ALIVE_EVERY)
                frames.send(self._writer, frames.Alive(until()))
                await self._writer.drain()

    async def _stop_beside(self) -> None:
        beside = [*self._beside, *self._calls]
        self._beside = []
        for task in beside:
            task.cancel()
        if beside:
            await asyncio.wait(beside)

    def _died(self) -> AgentProcessDied:
        if self._fault is not None:
            return self._fault
        code = self._process.returncode
        assert code is not None
        if code == EXIT_FENCED:
            return AgentProcessDied("it stopped because the executor did not respond for longer than its lease")
        if code >= 0:
            return AgentProcessDied(f"it exited with code {code}")
        known = {each.value: each.name for each in signal.Signals}
        return AgentProcessDied(f"it was ended by {known.get(-code, f'signal {-code}')}")


def _sendable(error: Exception) -> Exception:
    """Return an exception that another process can unpickle."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:  # noqa: BLE001 - whatever it holds
        return RuntimeError(str(error) or type(error).__name__)
    return error
