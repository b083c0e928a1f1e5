"""Clean virtual environments, each with one built distribution, on the versions of Python at hand."""

import os
import subprocess
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from shutil import which
from typing import Final

from tests.repo.tree import ROOT

PYTHONS: Final = ("3.11", "3.12", "3.13")
"""The versions that the metadata names."""

PATIENCE: Final = 800.0
_CONSTRAINTS: Final = str(ROOT / "deploy" / "constraints.txt")
_VERSION: Final = "import sys, venv, ensurepip; print('%d.%d' % sys.version_info[:2])"


@cache
def interpreter(version: str) -> str:
    """An interpreter of this version, from the path or pyenv; empty if there is none."""
    found = [path for path in [which(f"python{version}")] if path]
    if which("pyenv"):
        root = subprocess.run(["pyenv", "root"], capture_output=True, text=True, check=False).stdout.strip()
        found += [str(path) for path in sorted(Path(root).glob(f"versions/{version}.*/bin/python"))]
    for candidate in found:
        asked = subprocess.run([candidate, "-c", _VERSION], capture_output=True, text=True, check=False)
        if asked.stdout.strip() == version:
            return candidate
    return ""


@dataclass(frozen=True)
class Environment:
    """A virtual environment. Its programs see neither the repository nor our variables."""

    folder: Path

    @classmethod
    def create(cls, python: str, folder: Path) -> "Environment":
        """Creates an environment with pip alone in it."""
        subprocess.run([python, "-m", "venv", str(folder)], check=True, timeout=PATIENCE)
        return cls(folder)

    def install(self, *requirements: str) -> None:
        """Installs under the versions that the checks use, also for builds of an sdist. Modules are compiled only when
        they are imported, because compiling all takes half of the time."""
        options = ["-q", "--disable-pip-version-check", "--no-compile"]
        done = self.run("python", "-m", "pip", "install", *options, *requirements, env={"PIP_CONSTRAINT": _CONSTRAINTS})
        assert done.returncode == 0, done.stdout + done.stderr

    def run(
        self, program: str, *arguments: str, env: Mapping[str, str] | None = None
    ) -> "subprocess.CompletedProcess[str]":
        """Runs a program of the environment to its end."""
        return subprocess.run(
            [str(self.folder / "bin" / program), *arguments],
            cwd=self.folder,
            env=_variables(env),
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )

    @contextmanager
    def plane(self, *arguments: str, env: Mapping[str, str] | None = None) -> Generator["RunningPlane"]:
        """`taskplane dev` of the environment on free ports, until it is ready; killed at the end."""
        command = [str(self.folder / "bin" / "taskplane"), "dev", "--port", "0", "--grpc-port", "0", *arguments]
        process = subprocess.Popen(
            command,
            cwd=self.folder,
            env=_variables(env),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            assert process.stdout is not None
            said = ""
            for line in process.stdout:
                said += line
                if line.startswith("ready in "):
                    break
            assert "ready in " in said, said
            yield RunningPlane(said)
        finally:
            process.kill()
            process.communicate(timeout=PATIENCE)


@dataclass(frozen=True)
class RunningPlane:
    """A running plane; `said` is its output until it was ready."""

    said: str

    @property
    def url(self) -> str:
        """The URL of the gateway."""
        return self._after("A2A").partition("/ ")[0]

    @property
    def grpc(self) -> str:
        """The address of the gRPC port."""
        return self._after("gRPC").split()[0]

    def _after(self, word: str) -> str:
        (line,) = [line for line in self.said.splitlines() if line.startswith(f"{word} ")]
        return line.removeprefix(word).strip()


def _variables(more: Mapping[str, str] | None) -> dict[str, str]:
    """The variables of this process without those of Python and of the plane."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("TASKPLANE_", "PYTHON"))}
    return {**kept, "NO_COLOR": "1", "PYTHONUNBUFFERED": "1", **(more or {})}
