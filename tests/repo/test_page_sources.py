"""The rules of the web page: its size, no HTML from texts, the origin of its packages, and its own checks."""

import gzip
import json
import re
import subprocess
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Final

import pytest
from hatch_build import WebPage
from tests.repo.tree import ROOT, files, name
from tests.support.node import NO_PACKAGES, NODE, PAGE

MOST_LINES_OF_A_FILE: Final = 500
MOST_BYTES: Final = 75 * 1024
"""Of the first load, compressed."""
DIST: Final = WebPage(ROOT).dist

packages = pytest.mark.skipif(bool(NO_PACKAGES), reason=NO_PACKAGES)
built = pytest.mark.skipif(not (DIST / "index.html").exists(), reason="the web page is not built; `make ui` builds it")


def sources() -> Iterator[Path]:
    """The source files of the page, without tests and settings of the build."""
    return (path for path in files("gateway/ui/src") if path.suffix in (".ts", ".tsx", ".css"))


def checked(*command: str) -> None:
    """Runs a check of the page in Node."""
    done = subprocess.run([NODE, *command], cwd=PAGE, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"


def test_no_file_of_the_page_is_too_long() -> None:
    lengths = {name(path): len(path.read_text().splitlines()) for path in sources()}
    assert {path: length for path, length in lengths.items() if length > MOST_LINES_OF_A_FILE} == {}


def test_the_modules_of_the_page_have_no_import_cycle() -> None:
    """Types included, so a reader of one module needs only the modules below it."""
    modules = {path.with_suffix("") if path.suffix != ".css" else path: path for path in sources()}
    imported = re.compile(r"""from\s+["'](\.[^"']+)["']""")
    graph = {
        module: {(path.parent / found).resolve() for found in imported.findall(path.read_text())} & modules.keys()
        for module, path in modules.items()
    }
    TopologicalSorter(graph).prepare()


def test_no_source_of_the_page_writes_html() -> None:
    """HTML in a text of an agent would act with the rights of the user. A text parsed by DOMParser is inert."""
    writes = re.compile(
        r"innerHTML|outerHTML|insertAdjacentHTML|dangerouslySetInnerHTML|document\.write|srcdoc|createContextualFragment"
        r"|setHTMLUnsafe|\beval\(|new Function\b"
    )
    assert [name(path) for path in sources() if writes.search(path.read_text())] == []


def test_the_page_loads_only_its_own_files() -> None:
    """The page works offline, and other hosts do not learn that it is open."""
    address = re.compile(r"""(?:https?:)?//[\w-]+(?:\.[\w-]+)+|@import|\burl\(\s*["']?(?!data:|#)""")
    # Names, not addresses: of extensions, of XML, and a host that does not exist.
    names = ("https://taskplane.dev/extensions/", "http://www.w3.org/", ".invalid/")
    found = [
        (name(path), line)
        for path in [*sources(), PAGE / "index.html"]
        for line in path.read_text().splitlines()
        if address.search(line) and not any(known in line for known in names)
    ]
    assert found == []


def test_the_lock_file_has_a_checksum_and_no_address_for_every_package() -> None:
    """The packages come from the registry of the machine, and the checksums hold them equal."""
    lock = json.loads((PAGE / "package-lock.json").read_text())
    wanted = json.loads((PAGE / "package.json").read_text())
    pinned = {**wanted["dependencies"], **wanted["devDependencies"]}
    assert [version for version in pinned.values() if not re.fullmatch(r"\d+\.\d+\.\d+", version)] == []
    locked = {path: package for path, package in lock["packages"].items() if path}
    assert [path for path, package in locked.items() if "resolved" in package or "integrity" not in package] == []
    assert {each: locked[f"node_modules/{each}"]["version"] for each in pinned} == pinned


@packages
def test_the_types_of_the_page_are_correct() -> None:
    compiler = "node_modules/typescript/bin/tsc"
    checked(compiler)
    checked(compiler, "-p", "test")
    checked(compiler, "-p", "tsconfig.build.json")


@pytest.mark.more
@packages
def test_the_tests_of_the_page_pass() -> None:
    """T7, M2, M10, R11: the tests that need no browser, in Node."""
    checked("node_modules/vitest/vitest.mjs", "run")


@built
def test_the_first_load_is_small() -> None:
    """All files that the document names: the script with its static imports, and the style."""
    document = (DIST / "index.html").read_text()
    named = re.findall(r'(?:src|href)="\./assets/([^"]+)"', document)
    assert {Path(each).suffix for each in named} >= {".js", ".css"}
    sizes = {each: len(gzip.compress((DIST / "assets" / each).read_bytes(), 9)) for each in named}
    assert sum(sizes.values()) + len(document) <= MOST_BYTES, sizes


@built
def test_the_built_page_names_only_its_own_files() -> None:
    """No address begins with a slash or a host, so the page works below any path. Every named file exists."""
    document = (DIST / "index.html").read_text()
    addresses = re.findall(r'(?:src|href)="(?!data:)([^"]+)"', document)
    assert [each for each in addresses if not each.startswith("./assets/")] == []
    assert [each for each in addresses if not (DIST / each).exists()] == []
    styles = "".join(path.read_text() for path in (DIST / "assets").glob("*.css"))
    assert re.findall(r"@import|url\((?!data:|\./|#)[^)]*\)", styles) == []
    inline = re.findall(r"<script(?![^>]*\bsrc=)|<style|\son\w+=", document)
    assert inline == [], "the content security policy of the gateway refuses it"


@built
def test_the_page_comes_with_the_licences_of_its_libraries_and_compressed_scripts() -> None:
    text = (DIST / "licenses.txt").read_text()
    wanted = json.loads((PAGE / "package.json").read_text())["dependencies"]
    headings = re.findall(r"^(\S+) \d+\.\d+\.\d+ \(.+\)$", text, re.MULTILINE)
    assert set(headings) >= set(wanted)
    assert text.count("Copyright") >= len(headings) - 1
    for path in (DIST / "assets").glob("*.js"):
        packed = path.with_name(f"{path.name}.gz")
        assert gzip.decompress(packed.read_bytes()) == path.read_bytes()
