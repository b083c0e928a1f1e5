"""How a process lives and ends. Each test starts one."""

import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress

import pytest

START = """
import asyncio, gc, sys
from taskplane.runtime.process import run, settle
async def main(stop):
    print("started", type(asyncio.get_running_loop()).__module__, gc.get_threshold()[0], flush=True)
    {body}
sys.exit(run(main, drain={drain}))
"""
CLEAN = "await stop.wait(); print('drained', flush=True)"
STUCK = "await stop.wait(); print('draining', flush=True); await asyncio.Event().wait()"
BLOCKED = "await stop.wait(); print('draining', flush=True); import time; time.sleep(60)"
# Ways to block the event loop: where the interpreter looks for signals, in foreign code, and where no thread goes on.
BLOCKS = {
    "sleep": "import time; time.sleep(60)",
    "loop": "exec('while True: pass')",
    "foreign": "import hashlib; hashlib.pbkdf2_hmac('sha256', b'a', b'b', 2**31 - 1)",
    "expression": "import re; re.match('(a|a)+$', 'a' * 60 + 'b')",
}
SWALLOWED = """
    async def stubborn():
        while True:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                pass
    side = asyncio.create_task(stubborn())
    await asyncio.sleep(0)
"""
CALLBACK = """
    loop = asyncio.get_running_loop()
    loop.call_soon({callback})
    later = loop.create_future()
    loop.call_soon(loop.call_soon, later.set_result, None)
    await later
    print("lives", flush=True)
    await stop.wait()
"""


@contextmanager
def started(body: str, drain: float = 30.0) -> Generator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-c", START.format(body=body, drain=drain)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=30)
    return process.returncode, out.strip(), err


def test_a_clean_drain_ends_with_0() -> None:
    """C14: a clean drain exits 0."""
    for number in (signal.SIGTERM, signal.SIGINT):
        with started(CLEAN) as process:
            assert line(process).startswith("started uvloop 50000")
            process.send_signal(number)
            assert ended(process)[:2] == (0, "drained")


def test_a_drain_that_hangs_ends_with_3_at_its_deadline() -> None:
    """C14: watchdog at the deadline, also when the event loop is blocked."""
    for body in (STUCK, BLOCKED):
        with started(body, drain=0.3) as process:
            line(process)
            process.send_signal(signal.SIGTERM)
            code, out, err = ended(process)
            # It may not have come to say so, if the machine stood still until the deadline.
            assert code == 3 and out in ("draining", "")
            assert "drain timeout" in err


@pytest.mark.parametrize("block", BLOCKS)
def test_a_process_with_a_blocked_event_loop_ends_after_sigterm(block: str) -> None:
    """C14: this needs nothing of the event loop."""
    with started(f"print('blocked', flush=True); {BLOCKS[block]}", drain=0.3) as process:
        line(process)
        assert line(process) == "blocked"
        process.send_signal(signal.SIGTERM)
        code, _, err = ended(process)
        assert code == 3
        assert "drain timeout" in err and 'File "<string>"' in err


def test_a_second_sigint_ends_a_process_that_is_blocked() -> None:
    with started(f"print('blocked', flush=True); {BLOCKS['foreign']}") as process:
        line(process)
        line(process)
        for _ in range(2):
            process.send_signal(signal.SIGINT)
            # Two that come at once may be one.
            with suppress(subprocess.TimeoutExpired):
                process.wait(0.2)
        assert ended(process)[0] == 128 + signal.SIGINT


def test_signals_for_which_others_have_handlers_reach_the_event_loop() -> None:
    """C14: the thread takes the place of the loop, and passes on whatever is not its own."""
    body = """
    import signal
    came = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGUSR1, came.set)
    print("waits", flush=True)
    await came.wait()
    print("came", flush=True)
    await stop.wait()
    """
    with started(body) as process:
        line(process)
        line(process)
        process.send_signal(signal.SIGUSR1)
        assert line(process) == "came"
        process.send_signal(signal.SIGTERM)
        assert ended(process)[0] == 0


def test_a_task_that_swallows_its_cancellation_does_not_keep_the_process() -> None:
    """C14: a handler that swallows CancelledError would keep it alive."""
    with started(SWALLOWED, drain=0.3) as process:
        line(process)
        assert ended(process)[0] == 3


def test_a_second_sigint_ends_it_at_once() -> None:
    with started(STUCK) as process:
        line(process)
        process.send_signal(signal.SIGINT)
        assert line(process) == "draining"
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGINT)
        assert ended(process)[0] == 128 + signal.SIGINT


@pytest.mark.parametrize("callback", ["sys.exit", "loop.stop", "lambda: exec('raise KeyboardInterrupt')"])
def test_a_callback_does_not_end_the_process(callback: str) -> None:
    """C14: only its signals and its own parts do, not what a library of an agent does in the event loop."""
    with started(CALLBACK.format(callback=callback)) as process:
        line(process)
        assert line(process) == "lives"
        process.send_signal(signal.SIGTERM)
        code, _, err = ended(process)
        assert code == 0
        assert "tried to end it" in err


def test_a_thread_that_a_library_left_does_not_keep_the_process() -> None:
    """C14: Python would wait for it for ever; the code is that of the process all the same."""
    program = (
        "import threading\nfrom taskplane.runtime.process import leave\n"
        "threading.Thread(target=threading.Event().wait, name='of a library').start()\nleave(7)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 7
    assert "of a library" in done.stderr


def test_a_process_that_ends_by_itself_has_time_for_its_exit() -> None:
    """C14: libraries may work longer at the exit than threads are given, for instance to send the last spans."""
    program = (
        "import atexit, time\nfrom taskplane.runtime.process import LEAVING, leave\n"
        "atexit.register(lambda: (time.sleep(LEAVING + 0.2), print('sent', flush=True)))\nleave(0)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "sent\n", "")


def test_an_exception_of_main_ends_the_process_with_a_traceback() -> None:
    with started("raise LookupError('a part died')") as process:
        line(process)
        code, _, err = ended(process)
        assert code == 1
        assert "LookupError: a part died" in err
