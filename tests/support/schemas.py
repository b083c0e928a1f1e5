"""SQLite databases with the schema of a package: migrated once for each process of the test run, then copied."""

from pathlib import Path

from taskplane.storage.temporary import template


async def copy_schema(package: str, file: Path) -> None:
    """Makes `file`, a database with the result of all migrations."""
    content = await template(package)
    file.write_bytes(content)  # noqa: ASYNC240 - nothing else runs while a fixture is set up
