"""A check that ports are free, and the processes that use them if not."""

import errno
import os
import shlex
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from taskplane.client.failures import Failure

_LISTENING = "0A"


@dataclass(frozen=True, slots=True)
class Holder:
    """A process that listens on a port."""

    pid: int
    command: str


@dataclass(frozen=True, slots=True)
class ListenAddress:
    """An address to listen at; `flag` is the option that chooses its port, 0 any free one."""

    host: str
    port: int
    flag: str


def check_free(addresses: Sequence[ListenAddress], command: Callable[[Mapping[str, int]], str]) -> None:
    """Return if all addresses are free. Otherwise raise Failure, which names the processes that use them and a command
    with free ports: `command` returns it for the ports of given options."""
    taken = [address for address in addresses if not _is_free(address.host, address.port)]
    if not taken:
        return
    holders = {address.port: holder_of(address.port) for address in taken}
    who = dict.fromkeys(holders.values())
    if len(who) == 1:
        told = _in_use(list(holders), next(iter(who)))
    else:
        told = "; ".join(_in_use([port], holder) for port, holder in holders.items())
    stop = " ".join(str(pid) for pid in dict.fromkeys(holder.pid for holder in who if holder is not None))
    raise Failure(
        f"{told}.",
        reason="PORT_IN_USE",
        suggestion=f"Use {'another' if len(taken) == 1 else 'others'}:  {command(_instead(addresses, taken))}"
        + (f"        Or stop {'it' if len(who) == 1 else 'them'}:  kill {stop}" if stop else ""),
    )


def _is_free(host: str, port: int) -> bool:
    """Return whether a port can be listened on; 0 always can. Raise Failure for a host where none can."""
    if port == 0:
        return True
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
            probe.listen(1)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                return False
            raise Failure(f"Cannot listen on {host}:{port}: {error.strerror}.", reason="CANNOT_LISTEN") from error
    return True


def _in_use(ports: Sequence[int], holder: Holder | None) -> str:
    which = f"Port {ports[0]} is" if len(ports) == 1 else f"Ports {' and '.join(map(str, ports))} are"
    return f"{which} in use" + (f' by "{holder.command}" (pid {holder.pid})' if holder else "")


def _instead(addresses: Sequence[ListenAddress], taken: Sequence[ListenAddress]) -> dict[str, int]:
    """Return the next free port of each address that is taken, by its option."""
    spoken_for = {address.port for address in addresses}
    found: dict[str, int] = {}
    for address in taken:
        following = (port for port in range(address.port + 1, 65536) if port not in spoken_for)
        found[address.flag] = next((port for port in following if _is_free(address.host, port)), 0)
        spoken_for.add(found[address.flag])
    return found


def holder_of(port: int) -> Holder | None:
    """Return the process that listens on a TCP port of this machine; None if it cannot be determined.

    It reads /proc, so it works only on systems with /proc, and does not find processes of other users.
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
        # The process belongs to another user, or has just ended.
        return False
