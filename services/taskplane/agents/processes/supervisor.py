"""The supervisor of the process of an agent: it outlives this process, and then ends all processes that are left.

`process` starts the supervisor as the leader of a session of its own, with the socket of the agent as its standard
input and with a pipe. The supervisor forks the process of the agent before it has imported anything large. When that
process ends, or when the pipe is closed (by the executor or by its death), the supervisor kills all processes of the
agent, and ends with the same status as the agent.

On Linux it adopts orphans of the agent's processes, also in sessions of their own, and no process outlives it.
Elsewhere it kills the process group of the agent.
"""

import ctypes
import os
import signal
import sys
import threading
import time
from contextlib import suppress
from typing import Final, NoReturn

_SET_PDEATHSIG: Final = 1
_SET_CHILD_SUBREAPER: Final = 36
# Seconds after which every process that can be killed is dead.
_PATIENCE: Final = 3.0
_PAUSE: Final = 0.005


def main() -> NoReturn:
    """Start the process of the agent, and supervise it."""
    pipe = int(sys.argv[1])
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # The executor handles them. A handler, unlike an ignored signal, is not inherited by programs.
        signal.signal(number, _do_nothing)
    _control(_SET_CHILD_SUBREAPER, 1)
    agent = os.fork()
    if agent == 0:
        os.close(pipe)
        os.setpgid(0, 0)
        _control(_SET_PDEATHSIG, signal.SIGKILL)
        from taskplane.agents.processes.child import main as run

        sys.exit(run())
    with suppress(OSError):
        os.setpgid(agent, agent)
    _forget_channel()
    supervise(agent, pipe)


def supervise(agent: int, pipe: int) -> NoReturn:
    """Wait until the process of the agent ends or the pipe is closed; then end all its processes and this process."""
    ended = threading.Event()

    def watch() -> None:
        while os.read(pipe, 1):
            pass
        if not ended.is_set():
            os.kill(agent, signal.SIGKILL)

    threading.Thread(target=watch, daemon=True).start()
    # The process stays a zombie until everything else is dead, so that its number is nobody else's.
    os.waitid(os.P_PID, agent, os.WEXITED | os.WNOWAIT)
    ended.set()
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(agent, signal.SIGKILL)
    deadline = time.monotonic() + _PATIENCE
    while (left := _children() - {agent}) and time.monotonic() < deadline:
        for child in left:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(child, signal.SIGKILL)
            with suppress(ChildProcessError):
                os.waitpid(child, os.WNOHANG)
        time.sleep(_PAUSE)
    _, status = os.waitpid(agent, 0)
    if os.WIFSIGNALED(status):
        with suppress(OSError):
            signal.signal(os.WTERMSIG(status), signal.SIG_DFL)
        os.kill(os.getpid(), os.WTERMSIG(status))
    os._exit(os.waitstatus_to_exitcode(status) & 0xFF)


def _children() -> set[int]:
    """Return the child processes of this process, zombies too; empty without /proc."""
    here, found = str(os.getpid()), set[int]()
    with suppress(OSError):
        for name in os.listdir("/proc"):
            if name.isdigit():
                with suppress(OSError), open(f"/proc/{name}/stat", "rb") as stat:
                    # The name of the program, in parentheses, may have spaces in it.
                    if stat.read().rpartition(b")")[2].split()[1].decode() == here:
                        found.add(int(name))
    return found


def _control(option: int, value: int) -> None:
    """Call prctl where there is one."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def _forget_channel() -> None:
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)


def _do_nothing(number: int, frame: object) -> None:
    pass


if __name__ == "__main__":
    main()
