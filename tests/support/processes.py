"""Processes of the command `taskplane`, started cheaply: copies of one process that has done their imports.

A copy works like `python -m taskplane.cli`, with separate arguments, environment, session and outputs, and takes
signals and waits like any process. Imports are most of the time of a start, and the tests start hundreds. The beginning
and the end of the interpreter are not part of a copy, so a test about them takes a new process. There are no copies
with THOROUGH=1, nor on platforms where libraries cannot be copied.
"""

import asyncio
import faulthandler
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Protocol

from tests.support.thorough import THOROUGH

from taskplane.runtime import failpoints, settings

PROGRAM = (sys.executable, "-X", "faulthandler", "-m", "taskplane.cli")
COPIES = sys.platform == "linux" and not THOROUGH

_forkserver = get_context("forkserver")
_forkserver.set_forkserver_preload(["tests.support.imported"])


class Process(Protocol):
    """A started process."""

    @property
    def pid(self) -> int: ...

    @property
    def returncode(self) -> int | None:
        """None while it runs; minus the number of the signal that ended it."""
        ...

    def send_signal(self, signal: int, /) -> None: ...

    async def wait(self) -> int:
        """Returns the exit code once the process is gone."""
        ...


class Copy:
    """A running copy, with the interface of `subprocess.Popen`. It has only the given arguments and environment. An
    output is a file to append to or the end of a pipe, which the caller then closes; without `stderr` both go to
    `stdout`. It runs in `folder`, if one is given."""

    def __init__(
        self,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        stdout: "Path | Connection[str, str]",
        stderr: Path | None = None,
        *,
        stdin: Path | None = None,
        folder: Path | None = None,
    ) -> None:
        given = (list(arguments), dict(environment), stdout, stderr, stdin, folder)
        self._process: ForkServerProcess = _forkserver.Process(target=_run, args=given, daemon=True)
        self._process.start()
        assert self._process.pid is not None
        self.pid = self._process.pid

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    @property
    def sentinel(self) -> int:
        """A descriptor that can be read once the process is gone."""
        return self._process.sentinel

    def poll(self) -> int | None:
        return self.returncode

    def send_signal(self, signal: int, /) -> None:
        if self.returncode is None:
            os.kill(self.pid, signal)

    def kill(self) -> None:
        self._process.kill()

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        if self.returncode is None:
            assert timeout is not None
            raise subprocess.TimeoutExpired("taskplane", timeout)
        return self.returncode


class _Awaited:
    def __init__(self, copy: Copy) -> None:
        self._copy = copy
        self.pid = copy.pid
        self.send_signal = copy.send_signal

    @property
    def returncode(self) -> int | None:
        return self._copy.returncode

    async def wait(self) -> int:
        loop, gone = asyncio.get_running_loop(), asyncio.Event()
        # One descriptor for each waiting task, because a loop has one reader for each descriptor.
        watched = os.dup(self._copy.sentinel)
        loop.add_reader(watched, gone.set)
        try:
            await gone.wait()
        finally:
            loop.remove_reader(watched)
            os.close(watched)
        return self._copy.wait()


async def start(
    arguments: Sequence[str], environment: Mapping[str, str], log: Path, *, afresh: bool = False
) -> Process:
    """Starts `taskplane` with these arguments and only this environment; its outputs are appended to `log`. `afresh`:
    always as a new process."""
    if COPIES and not afresh:
        return _Awaited(Copy(arguments, environment, log))
    with log.open("ab") as output:
        return await asyncio.create_subprocess_exec(
            *PROGRAM, *arguments, env=environment, stdout=output, stderr=output, start_new_session=True
        )


def _run(
    arguments: list[str],
    environment: dict[str, str],
    stdout: "Path | Connection[str, str]",
    stderr: Path | None,
    stdin: Path | None,
    folder: Path | None,
) -> None:
    os.setsid()
    if stdin is not None:
        os.dup2(os.open(stdin, os.O_RDONLY), 0)
        sys.stdin = open(0, closefd=False)  # noqa: SIM115 - as long as the process
    os.dup2(_appending(stdout) if isinstance(stdout, Path) else stdout.fileno(), 1)
    os.dup2(1 if stderr is None else _appending(stderr), 2)
    if folder is not None:
        os.chdir(folder)
        # Where `python -m` looks first.
        sys.path.insert(0, str(folder))
    faulthandler.enable()
    os.environ.clear()
    os.environ.update(environment)
    # This part reads the environment when it is imported.
    failpoints.configure(os.environ.get(settings.FAILPOINTS, ""))
    sys.argv = ["taskplane", *arguments]
    from taskplane.cli.__main__ import main

    main()


def _appending(file: Path) -> int:
    return os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
