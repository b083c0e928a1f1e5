"""The driver of PostgreSQL is an extra, which may not be installed."""

import sys

import pytest

from taskplane.runtime.errors import Invalid
from taskplane.storage.engine import open_engine, run_alone

URL = "postgresql://u:p@127.0.0.1:1/x"


async def test_the_error_for_a_missing_driver_names_the_extra_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """C15: wherever the database is opened."""
    monkeypatch.setitem(sys.modules, "asyncpg", None)
    with pytest.raises(Invalid) as opening:
        await open_engine(URL).__aenter__()
    with pytest.raises(Invalid) as migrating:
        await run_alone(URL, lambda _: None)
    for refused in (opening.value, migrating.value):
        assert refused.reason == "DRIVER_MISSING" and "taskplane[postgres]" in refused.suggestion
