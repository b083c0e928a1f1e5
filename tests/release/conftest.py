"""One release for all tests of a run, made by the first process that needs it."""

import fcntl
import os

import pytest
from tests.release.building import Built, release


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """The files of a release."""
    base = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        base = base.parent
    with (base / "release.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        dist = base / "release" / "dist"
        return Built(dist) if len([*dist.glob("*")]) == 4 else release(base / "release")
