"""The package of the client in TypeScript: its files, its types, and the program of its page."""

import asyncio
import json
import re
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest
from tests.client.typescript import packages
from tests.gateway.plane import Plane
from tests.repo.tree import ROOT, files, name
from tests.support.node import NODE, TYPESCRIPT

from taskplane.api import __version__

_MODULES = TYPESCRIPT / "node_modules"
_COMPILER = str(_MODULES / "typescript" / "bin" / "tsc")
_LONGEST_FILE = 250
_MOST_BYTES = 24 * 1024
# A program in TypeScript that uses every function with its types.
_USE = """
import type { Client } from "@a2a-js/sdk/client";
import { SendMessageRequest } from "@a2a-js/sdk";
import { type Place, placeOf, resume, send, Sessions, steadyFetch, stream, Unreachable } from "@taskplane/client";

export async function use(client: Client, signal: AbortSignal): Promise<string> {
  const request = SendMessageRequest.fromJSON({});
  let place: Place | undefined;
  for await (const event of stream(client, request, { key: "a", signal })) place = placeOf(event) ?? place;
  for await (const event of resume(client, { taskId: place?.taskId ?? "" })) place = placeOf(event);
  await send(client, request, { giveUpAfter: 1 });
  const sessions = new Sessions({ url: "http://127.0.0.1:8080", fetch: steadyFetch() });
  for await (const { name, data } of sessions.watch("s")) if (name === "snapshot") return data.tasks[0]?.state ?? "";
  const { version } = await sessions.rewind("s", "t").catch((error: unknown) => {
    throw error instanceof Unreachable ? error.retryAfter : error;
  });
  // @ts-expect-error: a version is a number.
  return version;
}
"""


def run(*command: str, cwd: Path = TYPESCRIPT) -> str:
    """Run a program of Node, and return its output."""
    done = subprocess.run([NODE, *command], cwd=cwd, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


def built(folder: Path) -> Path:
    """Build the package, and return its file."""
    ready = _MODULES.relative_to(ROOT) / ".ready"
    command = ["make", "-s", "-o", str(ready), "client", f"CLIENT_DIST={folder}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    (found,) = folder.glob("*.tgz")
    return found


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory.mktemp("package"))


@pytest.fixture
def project(package: Path, tmp_path: Path) -> Path:
    """A program's folder, with the package and the official client as npm installs them."""
    modules = tmp_path / "node_modules"
    (modules / "@a2a-js").mkdir(parents=True)
    (modules / "@a2a-js" / "sdk").symlink_to(_MODULES / "@a2a-js" / "sdk")
    with tarfile.open(package) as archive:
        archive.extractall(tmp_path / "unpacked", filter="data")
    (modules / "@taskplane").mkdir()
    (tmp_path / "unpacked" / "package").rename(modules / "@taskplane" / "client")
    (tmp_path / "package.json").write_text('{"type": "module"}')
    return tmp_path


def manifest() -> dict[str, Any]:
    return dict(json.loads((TYPESCRIPT / "package.json").read_text()))


def test_the_package_needs_nothing_but_the_official_client_of_the_program() -> None:
    assert "dependencies" not in manifest()
    assert list(manifest()["peerDependencies"]) == ["@a2a-js/sdk"]
    imported = re.compile(r"""from "([^"]+)";""")
    sources = [path.read_text() for path in files("clients/typescript/src", suffix=".ts")]
    found = {each for source in sources for each in imported.findall(source) if not each.startswith("./")}
    assert found == {"@a2a-js/sdk", "@a2a-js/sdk/client", "@a2a-js/sdk/errors"}


def test_the_lock_file_of_the_package_has_a_checksum_and_no_address_for_every_package() -> None:
    """The packages come from the registry of the machine, and the checksums hold them equal."""
    lock = json.loads((TYPESCRIPT / "package-lock.json").read_text())
    pinned = manifest()["devDependencies"]
    assert [version for version in pinned.values() if not re.fullmatch(r"\d+\.\d+\.\d+", version)] == []
    locked = {path: each for path, each in lock["packages"].items() if path}
    assert [path for path, each in locked.items() if "resolved" in each or "integrity" not in each] == []
    assert {each: locked[f"node_modules/{each}"]["version"] for each in pinned} == pinned


def test_no_source_of_the_package_is_too_long() -> None:
    lengths = {name(path): len(path.read_text().splitlines()) for path in files("clients/typescript", suffix=".ts")}
    assert {path: length for path, length in lengths.items() if length > _LONGEST_FILE} == {}


def test_the_package_has_the_licence_of_the_repository() -> None:
    assert (TYPESCRIPT / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()
    assert manifest()["license"] == "Apache-2.0"


@packages
def test_the_types_of_the_package_are_correct() -> None:
    run(_COMPILER)


@packages
def test_the_tests_of_the_package_pass() -> None:
    """A refusal is not repeated, a server that cannot work now is asked after growing pauses, an abort ends all."""
    run("--test", "test/failures.test.ts")


@packages
def test_the_package_has_its_modules_with_their_types_and_nothing_else(package: Path) -> None:
    modules = {path.stem for path in files("clients/typescript/src", suffix=".ts")}
    wanted = {f"dist/{module}{ending}" for module in modules for ending in (".js", ".d.ts")}
    with tarfile.open(package) as archive:
        names = {each.removeprefix("package/") for each in archive.getnames()}
        member = archive.extractfile("package/package.json")
        assert member is not None
        described = json.load(member)
    assert names == {*wanted, "package.json", "README.md", "LICENSE"}
    assert described["version"].replace("-", ".").split(".")[:3] == __version__.split(".")[:3]
    assert {"devDependencies", "scripts", "dependencies"}.isdisjoint(described)
    assert package.stat().st_size <= _MOST_BYTES


@packages
def test_two_builds_of_the_package_are_byte_equal(package: Path, tmp_path: Path) -> None:
    again = built(tmp_path / "again")
    assert (again.name, again.read_bytes()) == (package.name, package.read_bytes())


@packages
@pytest.mark.parametrize("resolution", ["nodenext", "bundler"])
def test_a_program_in_typescript_sees_the_types_of_the_package(project: Path, resolution: str) -> None:
    (project / "use.ts").write_text(_USE)
    module = {"nodenext": "nodenext", "bundler": "esnext"}[resolution]
    options = ["--strict", "--skipLibCheck", "--noEmit", "--target", "es2022", "--types", ""]
    run(_COMPILER, *options, "--module", module, "--moduleResolution", resolution, "use.ts", cwd=project)


@packages
@pytest.mark.asyncio(loop_scope="module")
async def test_the_program_of_the_page_prints_what_the_page_shows(plane: Plane, project: Path) -> None:
    page = (TYPESCRIPT / "README.md").read_text()
    (program,) = re.findall(r"^```js\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    (shown,) = re.findall(r"^```console\n\$ node ask\.mjs \S+ (\S+) \"(.*?)\"\n(.*?)^```$", page, re.M | re.S)
    key, text, printed = shown
    (project / "ask.mjs").write_text(program)
    process = await asyncio.create_subprocess_exec(
        *(NODE, "ask.mjs", plane.gateway.url, key, text), cwd=project, stdout=asyncio.subprocess.PIPE
    )
    output, _ = await process.communicate()
    assert (process.returncode, output.decode()) == (0, printed)
