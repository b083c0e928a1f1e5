"""`taskplane session export` and `import`: a session as a file."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import BinaryIO, Final

from taskplane.cli import exits
from taskplane.cli.client.failures import Unreachable
from taskplane.cli.connection import Connection, run
from taskplane.cli.options import Options
from taskplane.cli.render import dump
from taskplane.cli.report import complain, note
from taskplane.cli.session import show_row
from taskplane.runtime.errors import Invalid

_PIECE: Final = 256 * 1024
# How the last line begins. Without one the file is not whole.
_LAST: Final = b'{"entries":'


def export_session(options: Options, session_id: str, file: Path | None) -> int:
    """Writes all of a session. A file is there when it is whole, and not before."""

    async def main(connection: Connection) -> int:
        async with connection.sessions.export(session_id) as pieces:
            if file is None:
                await _write(pieces, sys.stdout.buffer)
                return exits.OK
            part = file.with_name(f"{file.name}.part")
            try:
                with part.open("wb") as target:
                    await _write(pieces, target)
                    target.flush()
                    os.fsync(target.fileno())
                part.replace(file)
            finally:
                part.unlink(missing_ok=True)
        note(f"Session {session_id} was written to {file}.")
        return exits.OK

    try:
        return run(options, main)
    except OSError as error:
        return complain(_unusable(file or Path("-"), error), options.output)


def import_session(options: Options, file: Path, new_id: str) -> int:
    """Makes the session of an exported file, and shows it."""

    async def main(connection: Connection) -> int:
        if str(file) == "-":
            made = await connection.sessions.bring_in(_pieces(sys.stdin.buffer), new_id)
        else:
            with file.open("rb") as source:
                made = await connection.sessions.bring_in(_pieces(source), new_id)
        if options.output == "text":
            show_row(options, made["session"])
            note(f"  {made['entries']} entries, {made['tasks']} tasks, {made['events']} events")
        else:
            print(dump(made, indent=options.output == "json"))
        return exits.OK

    try:
        return run(options, main)
    except OSError as error:
        return complain(_unusable(file, error), options.output)


async def _write(pieces: AsyncIterator[bytes], target: BinaryIO) -> None:
    """Writes all pieces. `Unreachable`: what came is not whole."""
    last = b""
    async for piece in pieces:
        target.write(piece)
        last = (last + piece)[-1024:]
    target.flush()
    if not last.endswith(b"\n") or not last.rstrip(b"\n").rpartition(b"\n")[2].startswith(_LAST):
        raise Unreachable("The server stopped before the end.", code="EXPORT_CUT", suggestion="Export it again.")


async def _pieces(source: BinaryIO) -> AsyncIterator[bytes]:
    while piece := await asyncio.to_thread(source.read, _PIECE):
        yield piece


def _unusable(file: Path, error: OSError) -> Invalid:
    return Invalid(f"{file} cannot be used: {error.strerror}", reason="BAD_FILE")
