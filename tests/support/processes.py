"""Processes of the plane, started cheaply: copies of one process that has imported already what they are made of.

A copy does what `python -m taskplane.cli` does, with arguments, an environment, a session and a log of its own, and is
signalled and waited for like any process. Imports are most of what a start costs, and tests that kill start hundreds.
With THOROUGH=1 there are no copies: every process has an interpreter of its own, as those of a release have.
"""

import asyncio
import faulthandler
import os
import sys
from collections.abc import Mapping, Sequence
from multiprocessing import get_context
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Protocol

from taskplane.runtime import failpoints, settings

_forkserver = get_context("forkserver")
_forkserver.set_forkserver_preload(["tests.support.imported"])


class Process(Protocol):
    """A process that was started."""

    @property
    def pid(self) -> int: ...

    @property
    def returncode(self) -> int | None:
        """None while it runs; minus the number of the signal that ended it."""
        ...

    def send_signal(self, signal: int, /) -> None: ...

    async def wait(self) -> int:
        """Returns the code once the process is gone."""
        ...


class _Copy:
    def __init__(self, process: ForkServerProcess) -> None:
        self._process = process
        assert process.pid is not None
        self.pid = process.pid

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def send_signal(self, signal: int, /) -> None:
        if self.returncode is None:
            os.kill(self.pid, signal)

    async def wait(self) -> int:
        loop, gone = asyncio.get_running_loop(), asyncio.Event()
        # A descriptor for each who waits: a loop calls one for each descriptor.
        watched = os.dup(self._process.sentinel)
        loop.add_reader(watched, gone.set)
        try:
            await gone.wait()
        finally:
            loop.remove_reader(watched)
            os.close(watched)
        code = self.returncode
        assert code is not None
        return code


async def start(
    arguments: Sequence[str], environment: Mapping[str, str], log: Path, *, afresh: bool = False
) -> Process:
    """Starts `taskplane` with these arguments and nothing but this environment; its outputs go to the end of `log`.

    `afresh`: in an interpreter of its own, whose beginning and end are then part of what is tested.
    """
    if not afresh and not os.environ.get("THOROUGH"):
        process = _forkserver.Process(target=_run, args=(list(arguments), dict(environment), log), daemon=True)
        process.start()
        return _Copy(process)
    with log.open("ab") as output:
        return await asyncio.create_subprocess_exec(
            sys.executable,
            "-X",
            "faulthandler",
            "-m",
            "taskplane.cli",
            *arguments,
            env=environment,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )


def _run(arguments: list[str], environment: dict[str, str], log: Path) -> None:
    os.setsid()
    with log.open("ab") as output:
        for standard in (1, 2):
            os.dup2(output.fileno(), standard)
    faulthandler.enable()
    os.environ.clear()
    os.environ.update(environment)
    # What reads the environment when it is imported.
    failpoints.configure(os.environ.get(settings.FAILPOINTS, ""))
    sys.argv = ["taskplane", *arguments]
    from taskplane.cli.__main__ import main

    main()
