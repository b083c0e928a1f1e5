"""The files of a release: the same bytes each time, with complete metadata and the licences of their parts."""

import os
import re
import tarfile
import zipfile
from email import message_from_bytes
from email.message import Message
from pathlib import Path

import pytest
from tests.release.building import EPOCH, Built, release
from tests.repo.tree import ROOT, SOURCE_ROOTS, rooms
from tests.support.thorough import THOROUGH

from taskplane.api import __version__

pytestmark = [pytest.mark.more, pytest.mark.timeout(900)]
BOTH = ["taskplane", "taskplane_client"]


def metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        (found,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        return message_from_bytes(archive.read(found))


def names(archive: Path) -> list[str]:
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            return wheel.namelist()
    with tarfile.open(archive) as sdist:
        return sdist.getnames()


@pytest.mark.skipif(not THOROUGH, reason="builds everything again; THOROUGH=1 runs it")
def test_two_builds_in_different_folders_are_byte_equal(built: Built, tmp_path: Path) -> None:
    """The second build has other permissions and times of its files, and another time zone."""
    before = os.umask(0o077)
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("TZ", "Pacific/Auckland")
            again = release(tmp_path / "another folder")
    finally:
        os.umask(before)
    first, second = ({path.name: path.read_bytes() for path in each.folder.iterdir()} for each in (built, again))
    assert len(first) == 4
    assert first.keys() == second.keys()
    assert [name for name in first if first[name] != second[name]] == []


def test_every_file_of_a_release_has_the_time_of_its_commit(built: Built) -> None:
    for distribution in BOTH:
        with tarfile.open(built.sdist(distribution)) as sdist:
            assert {member.mtime for member in sdist} == {EPOCH}


@pytest.mark.parametrize("distribution", BOTH)
def test_the_metadata_has_the_one_version_and_the_licence_files(built: Built, distribution: str) -> None:
    found = metadata(built.wheel(distribution))
    assert found["Version"] == __version__
    assert found["Requires-Python"] == ">=3.11"
    assert "Apache-2.0" in found["License-Expression"]
    packed = names(built.wheel(distribution))
    for licence in found.get_all("License-File", []):
        assert any(name.endswith(f".dist-info/licenses/{licence}") for name in packed), licence
    assert {Path(licence).name for licence in found.get_all("License-File", [])} == {"LICENSE", "NOTICE"}


@pytest.mark.parametrize("distribution", BOTH)
def test_a_wheel_is_typed_and_contains_no_library_of_others(built: Built, distribution: str) -> None:
    """Except the libraries of the page, with their licences."""
    packed = [name for name in names(built.wheel(distribution)) if ".dist-info/" not in name]
    assert [name for name in packed if not name.startswith("taskplane/")] == []
    ours = {room for root in SOURCE_ROOTS for room in rooms(root)} if distribution == "taskplane" else rooms("protos")
    assert {f"taskplane/{room}/py.typed" for room in ours} <= set(packed)
    assert not [name for name in packed if "node_modules" in name or name.endswith((".tsx", ".db"))]
    assert ("taskplane/gateway/dist/licenses.txt" in packed) == (distribution == "taskplane")


def test_the_licence_of_the_package_names_those_of_the_libraries_in_the_page(built: Built) -> None:
    with zipfile.ZipFile(built.wheel("taskplane")) as wheel:
        texts = wheel.read("taskplane/gateway/dist/licenses.txt").decode()
    bundled = set(re.findall(r"^[@a-z][\w@/.-]* \d[\w.-]* \(([\w.-]+)\)$", texts, re.MULTILINE))
    expression = metadata(built.wheel("taskplane"))["License-Expression"]
    assert set(expression.split(" AND ")) == bundled | {"Apache-2.0"}
    assert f'image.licenses="{expression}"' in (ROOT / "deploy" / "Dockerfile").read_text()


def test_the_sdist_has_the_files_for_make_and_the_tests_and_no_secret(built: Built) -> None:
    packed = {name.partition("/")[2] for name in names(built.sdist("taskplane"))}
    wanted = {"Makefile", "deploy/constraints.txt", "deploy/compose.yaml", "docs/README.md", "bench/__main__.py"}
    assert (
        wanted | {"tests/conftest.py", "LICENSE", "CONTRIBUTING.md", "SECURITY.md", "protos/pyproject.toml"} <= packed
    )
    assert {"deploy/.env", "deploy/api-keys.toml"}.isdisjoint(packed)
