"""SQLite databases with the schema of a package: migrated once for each process that runs tests, then copied."""

from pathlib import Path
from tempfile import TemporaryDirectory

from taskplane.storage.migrate import upgrade

_migrated: dict[str, bytes] = {}


async def copy_schema(package: str, file: Path) -> None:
    """Makes `file`, a database as migrations make it from nothing."""
    if package not in _migrated:
        with TemporaryDirectory() as folder:
            template = Path(folder) / "template.db"
            await upgrade(f"sqlite:///{template}", package)
            _migrated[package] = template.read_bytes()
    file.write_bytes(_migrated[package])  # noqa: ASYNC240 - nothing else runs while a fixture is set up
