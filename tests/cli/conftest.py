"""One plane for all tests of commands that only call a plane."""

from collections.abc import Generator

import pytest
from tests.cli.command import Dev, dev


@pytest.fixture(scope="session")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Generator[Dev]:
    """A `taskplane dev` with the demo agent."""
    with dev(cwd=tmp_path_factory.mktemp("plane"), afresh=True) as started:
        yield started


@pytest.fixture
def url(plane: Dev) -> str:
    """The address of the plane."""
    return plane.url
