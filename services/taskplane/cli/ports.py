"""A check that a port is free, and the process that uses it if not."""

import errno
import os
import shlex
import socket
from dataclasses import dataclass
from pathlib import Path

from taskplane.cli.client.failures import Failure

_LISTENING = "0A"


@dataclass(frozen=True, slots=True)
class Holder:
    """A process that listens on a port."""

    pid: int
    command: str


def check_free(host: str, port: int, flag: str) -> None:
    """Return if `port` can be listened on. Raise Failure with the process that uses it; `flag` is the option to change
    it."""
    if port == 0:
        return
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
            probe.listen(1)
        except OSError as error:
            raise _refused(error, host, port, flag) from error


def _refused(error: OSError, host: str, port: int, flag: str) -> Failure:
    if error.errno != errno.EADDRINUSE:
        return Failure(f"Cannot listen on {host}:{port}: {error.strerror}.", code="CANNOT_LISTEN")
    holder = holder_of(port)
    whose = f' by "{holder.command}" (pid {holder.pid})' if holder else ""
    suggestion = f"Use another:  taskplane dev {flag} {port + 1 if port < 65535 else 0}"
    if holder:
        suggestion += f"        Or stop it:  kill {holder.pid}"
    return Failure(f"Port {port} is in use{whose}.", code="PORT_IN_USE", suggestion=suggestion)


def holder_of(port: int) -> Holder | None:
    """Return the process that listens on a TCP port of this machine; None if it cannot be determined.

    It reads /proc, so it finds nothing on systems without it, nor processes of other users.
    """
    inodes = {inode for table in ("tcp", "tcp6") for inode in _listening(Path("/proc/net") / table, port)}
    if not inodes:
        return None
    wanted = {f"socket:[{inode}]" for inode in inodes}
    for process in Path("/proc").iterdir():
        if process.name.isdecimal() and _holds(process, wanted):
            words = (process / "cmdline").read_bytes().decode(errors="replace").rstrip("\0").split("\0")
            return Holder(int(process.name), shlex.join([Path(words[0]).name, *words[1:]]))
    return None


def _listening(table: Path, port: int) -> list[str]:
    """Return the inodes of the sockets in a kernel table that listen on `port`; proc(5) describes the columns."""
    try:
        rows = [line.split() for line in table.read_text().splitlines()[1:]]
    except OSError:
        return []
    return [row[9] for row in rows if row[3] == _LISTENING and int(row[1].rpartition(":")[2], 16) == port]


def _holds(process: Path, wanted: set[str]) -> bool:
    try:
        return any(os.readlink(link) in wanted for link in (process / "fd").iterdir())
    except OSError:
        # Another user's process, or one that has just ended.
        return False
