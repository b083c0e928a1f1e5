"""The example of docs/calling-from-python.md: a program that calls the services of a plane over gRPC."""

import asyncio
import re
import shlex
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from subprocess import PIPE
from typing import Final

import pytest
from tests.repo.tree import ROOT
from tests.support.cutting import cutting
from tests.system.plane import Plane

pytestmark = pytest.mark.asyncio(loop_scope="module")

_PROGRAM: Final = ROOT / "docs" / "examples" / "calling.py"


@asynccontextmanager
async def called(*arguments: str) -> AsyncGenerator[asyncio.subprocess.Process]:
    """The program, while it runs."""
    process = await asyncio.create_subprocess_exec(sys.executable, str(_PROGRAM), *arguments, stdout=PIPE, stderr=PIPE)
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def said(*arguments: str) -> tuple[int | None, str, str]:
    """Returns the exit code of the program, and its two outputs."""
    async with called(*arguments) as process:
        out, errors = await process.communicate()
        return process.returncode, out.decode(), errors.decode()


async def test_c5_a_broken_stream_continues_after_the_last_event(plane: Plane) -> None:
    """C5, C10: each event once, over two connections; a repeat under the same key is the same task."""
    host, _, port = plane.executor_target.rpartition(":")
    async with cutting(host, int(port)) as proxy:
        arguments = (f"127.0.0.1:{proxy.port}", "demo", "calling-1", "count 40 50")
        async with called(*arguments) as process:
            assert process.stdout is not None
            first = [await process.stdout.readline() for _ in range(5)]
            proxy.cut()
            rest = await process.stdout.read()
        numbers = [int(line.split()[0]) for line in (b"".join(first) + rest).splitlines()[:-1]]
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
        assert rest.splitlines()[-1] == b"TASK_STATE_COMPLETED"
        assert numbers[-1] >= 40
        code, again, _ = await said(*arguments)
        assert (code, again) == (0, "TASK_STATE_COMPLETED\n"), "a repeat is at the end of the same task at once"


async def test_a_refused_call_is_shown_with_its_reason(plane: Plane) -> None:
    code, out, errors = await said(plane.executor_target, "nobody", "calling-2", "hello")
    assert (code, out) == (1, "")
    assert errors.startswith("AGENT_NOT_FOUND: ")


async def test_the_page_shows_the_program_and_its_real_output(plane: Plane) -> None:
    page = (ROOT / "docs" / "calling-from-python.md").read_text()
    assert f"```python\n{_PROGRAM.read_text()}```" in page
    [(line, shown)] = re.findall(r"```console\n\$ (.*)\n((?:.+\n)*?)```", page)
    python, program, _, *arguments = shlex.split(line)
    assert (python, program) == ("python", _PROGRAM.relative_to(ROOT).as_posix())
    assert await said(plane.executor_target, *arguments) == (0, shown, "")
