"""`taskplane artifact`: list the artifacts of a task, and save one."""

import sys
from pathlib import Path
from typing import Any, Final

from taskplane.cli import exits
from taskplane.cli.connection import Connection, run
from taskplane.cli.options import Options
from taskplane.cli.output_file import opened, unusable
from taskplane.cli.render import one_line, print_list, time_text
from taskplane.cli.report import note, report_error

_HEADER: Final = ["ARTIFACT", "NAME", "UPDATED", "VERSIONS"]


def list_artifacts(options: Options, task_id: str) -> int:
    """List the artifacts of a task, in the order in which they were begun."""

    async def main(connection: Connection) -> int:
        found = await connection.artifacts.of_task(await connection.task_id(task_id))
        print_list(found, [_HEADER, *map(_row, found)], "No artifacts.", options.output)
        return exits.OK

    return run(options, main)


def get_artifact(options: Options, task_id: str, name: str, file: Path | None, version: int = 0) -> int:
    """Write an artifact to a file, or to stdout; without a `name` the only one of the task. `version`: from 1; 0: the
    newest one."""

    async def main(connection: Connection) -> int:
        task = await connection.task_id(task_id)
        async with connection.artifacts.content(task, name, version) as (title, pieces):
            if file is None:
                async for piece in pieces:
                    sys.stdout.buffer.write(piece)
                sys.stdout.buffer.flush()
                return exits.OK
            try:
                with opened(file) as target:
                    async for piece in pieces:
                        target.write(piece)
            except OSError as error:
                return report_error(unusable(file, error), options.output)
            note(f"Artifact {title} was written to {file}.")
        return exits.OK

    return run(options, main)


def _row(artifact: dict[str, Any]) -> list[str]:
    updated = time_text(str(artifact.get("updatedAt", "")))
    return [
        artifact["artifactId"],
        one_line(str(artifact.get("name") or ""), 40),
        updated,
        str(artifact.get("versions", 1)),
    ]
