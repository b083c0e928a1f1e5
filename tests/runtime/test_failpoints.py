"""Failpoints do nothing unless TASKPLANE_FAILPOINTS names them; then they run their action."""

import asyncio
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from taskplane.runtime import errors, failpoints
from taskplane.runtime.failpoints import afp, fp


@pytest.fixture(autouse=True)
def cleared() -> Iterator[None]:
    yield
    failpoints.configure("")


async def test_nothing_happens_where_nothing_is_configured() -> None:
    fp("append.before_commit")
    await afp("append.before_commit")
    failpoints.configure("other=raise(INTERNAL)")
    fp("append.before_commit")
    await afp("append.before_commit")


async def test_an_error_is_raised_from_the_nth_time_on() -> None:
    failpoints.configure("one=raise(UNAVAILABLE)@2; two=raise(ABORTED)")
    fp("one")
    with pytest.raises(errors.Unavailable):
        fp("one")
    with pytest.raises(errors.Unavailable):
        await afp("one")
    with pytest.raises(errors.Conflict):
        await afp("two")


async def test_a_pause_marks_that_it_was_reached_and_ends_when_its_file_exists(tmp_path: Path) -> None:
    failpoints.configure(f"one=pause({tmp_path}/go);two=pause({tmp_path}/on)")
    for name, file, point in (("loop", "go", afp("one")), ("thread", "on", asyncio.to_thread(fp, "two"))):
        waiting = asyncio.create_task(point, name=name)
        async with asyncio.timeout(10):
            while not (tmp_path / f"{file}.reached").exists():
                await asyncio.sleep(0.005)
            assert not waiting.done()
            (tmp_path / file).touch()
            await waiting


async def test_a_sleep_delays_its_caller_without_blocking_the_loop() -> None:
    failpoints.configure("one=sleep(0.05)")
    began = time.monotonic()
    waiting = asyncio.create_task(afp("one"))
    await asyncio.sleep(0)
    assert not waiting.done()
    await waiting
    assert time.monotonic() - began > 0.04
    began = time.monotonic()
    await asyncio.to_thread(fp, "one")
    assert time.monotonic() - began > 0.04


@pytest.mark.parametrize("text", ["one", "one=explode(1)", "=exit(1)", "one=exit(1"])
def test_malformed_text_is_refused(text: str) -> None:
    with pytest.raises(errors.Invalid, match="TASKPLANE_FAILPOINTS"):
        failpoints.configure(text)


def test_the_environment_configures_them_and_exit_ends_the_process_at_once() -> None:
    code = (
        "from taskplane.runtime.failpoints import fp; fp('other'); print('on', flush=True); fp('here'); print('never')"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"TASKPLANE_FAILPOINTS": "here=exit(9)"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (9, "on\n")
