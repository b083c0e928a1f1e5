"""`taskplane session export` and `import`: a session as a file."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import nullcontext
from pathlib import Path
from typing import BinaryIO, Final

from taskplane.cli import exits
from taskplane.cli.connection import Connection, run
from taskplane.cli.options import Options
from taskplane.cli.output_file import opened, unusable
from taskplane.cli.render import print_json
from taskplane.cli.report import note, report_error
from taskplane.cli.session import show_row
from taskplane.client.failures import Declined, Unreachable

_PIECE: Final = 256 * 1024
# The beginning of the last line; a file without it is incomplete.
_LAST: Final = b'{"entries":'


def export_session(options: Options, session_id: str, file: Path | None, form: str = "ndjson") -> int:
    """Write a session to a file, as ndjson, json or markdown. A regular file appears when it is complete, and not
    before; pipes and devices are written as the data arrives, and are not replaced."""

    async def main(connection: Connection) -> int:
        session = await connection.session_id(session_id)
        async with connection.sessions.export(session, form) as pieces:
            if file is None:
                await _write(pieces, sys.stdout.buffer, form)
                return exits.OK
            try:
                with opened(file) as target:
                    await _write(pieces, target, form)
            except OSError as error:
                return report_error(unusable(file, error), options.output)
        note(f"Session {session} was written to {file}.")
        return exits.OK

    return run(options, main)


def import_session(options: Options, file: Path, new_id: str) -> int:
    """Create the session of an exported file, and show it."""

    async def main(connection: Connection) -> int:
        try:
            with nullcontext(sys.stdin.buffer) if str(file) == "-" else file.open("rb") as source:
                made = await connection.sessions.import_file(_pieces(source), new_id)
        except OSError as error:
            return report_error(unusable(file, error), options.output)
        except Declined as refusal:
            if refusal.reason == "SESSION_EXISTS":
                refusal.suggestion = "Choose another id with --id."
            raise
        if options.output == "text":
            show_row(options, made["session"])
            note(f"  {made['entries']} entries, {made['tasks']} tasks, {made['events']} events")
        else:
            print_json(made, options.output)
        return exits.OK

    return run(options, main)


async def _write(pieces: AsyncIterator[bytes], target: BinaryIO, form: str) -> None:
    """Write all pieces. Raise `Unreachable` if the export is incomplete; other formats than ndjson end with a broken
    connection then."""
    last = b""
    async for piece in pieces:
        target.write(piece)
        last = (last + piece)[-1024:]
    target.flush()
    if form != "ndjson":
        return
    if not last.endswith(b"\n") or not last.rstrip(b"\n").rpartition(b"\n")[2].startswith(_LAST):
        raise Unreachable(
            "The server stopped before the end.", reason="EXPORT_CUT", suggestion="Export the session again."
        )


async def _pieces(source: BinaryIO) -> AsyncIterator[bytes]:
    while piece := await asyncio.to_thread(source.read, _PIECE):
        yield piece
