"""The page docs/client.md: its program, killed and started again, and its other block."""

import asyncio
import re
import shlex
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from textwrap import indent
from typing import Any

import pytest
from tests.gateway.plane import Plane, fresh
from tests.repo.tree import ROOT

from taskplane.client import Client, FullTask, Received

pytestmark = pytest.mark.asyncio(loop_scope="module")
_PROGRAM = ROOT / "docs" / "examples" / "ask.py"
_PAGE = (ROOT / "docs" / "client.md").read_text()


@asynccontextmanager
async def asking(place: Path, *arguments: str) -> AsyncGenerator[Process]:
    """The program while it runs."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(_PROGRAM), *arguments, cwd=place, stdout=PIPE, stderr=PIPE
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def finished(place: Path, *arguments: str) -> tuple[int | None, str, str]:
    """The exit code of the program, and its two outputs."""
    async with asking(place, *arguments) as process:
        out, errors = await process.communicate()
        return process.returncode, out.decode(), errors.decode()


async def number(process: Process) -> int:
    """The number of the event of the next line."""
    assert process.stdout is not None
    return int((await process.stdout.readline()).split()[0])


async def test_the_page_shows_the_program_and_its_output_unchanged(plane: Plane, tmp_path: Path) -> None:
    assert f"```python\n{_PROGRAM.read_text()}```" in _PAGE
    [(line, shown)] = re.findall(r"```console\n\$ (.*)\n((?:.+\n)*?)```", _PAGE)
    python, program, url, *arguments = shlex.split(line)
    assert (python, program) == ("python", _PROGRAM.relative_to(ROOT).as_posix())
    assert url == "http://127.0.0.1:8080"
    assert await finished(tmp_path, plane.gateway.url, *arguments) == (0, shown, "")
    assert await finished(tmp_path, plane.gateway.url, *arguments) == (0, "", ""), "each event is printed once"


async def test_p12_the_killed_program_continues_after_its_last_event(plane: Plane, tmp_path: Path) -> None:
    arguments = (plane.gateway.url, "ask-2", "slow 1000")
    async with asking(tmp_path, *arguments) as process:
        before = [await number(process) for _ in range(5)]
    task_id, cursor, _ = (tmp_path / "ask-2.cursor").read_text().split(" ")
    last = int(cursor.rpartition("-")[2])
    # The program may have been killed between the line and the file.
    assert before == [1, 2, 3, 4, 5]
    assert last >= 4
    async with asking(tmp_path, *arguments) as process:
        assert await number(process) == last + 1
        async with Client(plane.gateway.url) as client:
            await client.cancel(task_id)
        await process.wait()


async def test_the_program_of_a_task_that_waits_for_the_user_ends_the_first_time_and_later(
    plane: Plane, tmp_path: Path
) -> None:
    arguments = (plane.gateway.url, "ask-4", "ask")
    file = tmp_path / "ask-4.cursor"
    async with asyncio.timeout(60):
        code, whole, _ = await finished(tmp_path, *arguments)
        assert code == 0
        assert " input-required" in whole.splitlines()[-1]
        assert await finished(tmp_path, *arguments) == (0, "", "")
        # As if killed after the first event.
        task_id, cursor, _ = file.read_text().split(" ")
        file.write_text(f"{task_id} {cursor.rpartition('-')[0]}-1 submitted")
        assert await finished(tmp_path, *arguments) == (0, whole.partition("\n")[2], "")
    async with Client(plane.gateway.url) as client:
        await client.cancel(task_id)


async def test_a_refused_call_prints_its_reason(plane: Plane, tmp_path: Path) -> None:
    assert (await finished(tmp_path, plane.gateway.url, "ask-3", "hello"))[0] == 0
    (tmp_path / "ask-3.cursor").unlink()
    code, out, errors = await finished(tmp_path, plane.gateway.url, "ask-3", "good bye")
    assert (code, out) == (1, "")
    assert errors.startswith("KEY_REUSED: ")


async def test_a_stream_left_early_as_the_page_shows_leaves_its_task_running(plane: Plane) -> None:
    [(block)] = re.findall(r"```python\n(async with aclosing.*?)```", _PAGE, re.DOTALL)
    names: dict[str, Any] = {"aclosing": aclosing}
    exec("async def leave(client):\n" + indent(block, "    ") + "    return event\n", names)
    async with Client(plane.gateway.url) as client:
        event: Received = await names["leave"](client)
        await plane.at_zero()
        assert isinstance(event.event, FullTask)
        assert (await client.get(event.task_id)).state in ("submitted", "working")
        await client.cancel(event.task_id)


async def test_the_official_client_streams_as_the_page_shows(plane: Plane, capsys: pytest.CaptureFixture[str]) -> None:
    [(block)] = re.findall(r"```python\n(from a2a.client import.*?)```", _PAGE, re.DOTALL)
    names: dict[str, Any] = {}
    exec("async def show():\n" + indent(block.replace("http://127.0.0.1:8080", plane.gateway.url), "    "), names)
    await names["show"]()
    printed = capsys.readouterr().out.split()
    assert printed == ["task", *["status_update"] * (len(printed) - 1)] and len(printed) > 1


async def test_the_first_program_of_the_package_prints_the_stream(plane: Plane) -> None:
    readme = (ROOT / "protos" / "README.md").read_text()
    program = re.findall(r"```python\n(import asyncio\n.*?)```", readme, re.DOTALL)[0]
    here = program.replace("http://127.0.0.1:8080", plane.gateway.url).replace("order-17", fresh())
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", here, stdout=PIPE)
    printed = (await process.communicate())[0].decode().splitlines()
    assert process.returncode == 0
    assert printed[-1].endswith(" completed 1 2 3")
