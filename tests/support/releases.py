"""Earlier releases: their commits, which deploy/releases.toml names, their sources and their wheels."""

import io
import os
import re
import subprocess
import sys
import tarfile
import tomllib
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Final

from packaging.version import InvalidVersion, Version
from tests.repo.tree import ROOT

RELEASES: Final = ROOT / "deploy" / "releases.toml"
_COMMIT: Final = re.compile(r"[0-9a-f]{40}")
_MEMBERS: Final = {"version", "commit", "date"}


class BadReleases(ValueError):
    """The file of releases is wrong. The message names the release and the mistake."""


@dataclass(frozen=True)
class Release:
    """A version, its commit as 40 hex digits, and the day of the release."""

    version: str
    commit: str
    date: date


def releases(text: str) -> list[Release]:
    """Return the releases, the oldest first. Raise BadReleases for a wrong one, and for versions that do not
    increase."""
    document = tomllib.loads(text)
    if document.keys() - {"release"}:
        raise BadReleases("there is more than [[release]] in the file")
    found: list[Release] = []
    for entry in document.get("release", []):
        if entry.keys() != _MEMBERS:
            raise BadReleases(f"a release has {', '.join(sorted(entry))}, and needs version, commit and date")
        version, commit, day = entry["version"], entry["commit"], entry["date"]
        if not isinstance(commit, str) or not _COMMIT.fullmatch(commit):
            raise BadReleases(f"the commit of {version} must be 40 hex digits")
        if type(day) is not date:
            raise BadReleases(f"the date of {version} must be a day such as 2026-01-31")
        try:
            if found and Version(version) <= Version(found[-1].version):
                raise BadReleases(f"{version} must be newer than {found[-1].version}, which is before it")
            if Version(version).is_devrelease:
                raise BadReleases(f"{version} is no version of a release")
        except (InvalidVersion, TypeError):
            raise BadReleases(f"{version!r} is no version") from None
        found.append(Release(version, commit, day))
    return found


def sources(release: Release, folder: Path, repository: Path = ROOT) -> Path:
    """Write the files of the release's commit below `folder`, and return it."""
    packed = _git(repository, "archive", "--format=tar", release.commit)
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(folder, filter="data")
    return folder


def wheel(release: Release, folder: Path, repository: Path = ROOT) -> Path:
    """Build the wheel of `taskplane` of the release, without the web page, and return its path."""
    source, dist = sources(release, folder / "sources", repository), folder / "dist"
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(dist)],
        cwd=source,
        env={**os.environ, "UI_SKIP_BUILD": "1"},
        check=True,
        capture_output=True,
    )
    (built,) = dist.glob("taskplane-*.whl")
    return built


def file_of(commit: str, path: str, repository: Path = ROOT) -> str:
    """Return a file as it is in a commit."""
    return _git(repository, "show", f"{commit}:{path}").decode()


def has_history(repository: Path = ROOT) -> bool:
    """Whether there is a git repository with all its commits."""
    try:
        return _git(repository, "rev-parse", "--is-shallow-repository").strip() == b"false"
    except (subprocess.CalledProcessError, FileNotFoundError):
        return False


def is_in_history(commit: str, repository: Path = ROOT) -> bool:
    """Whether a commit is the checked-out one, or before it."""
    command = ["git", "-C", str(repository), "merge-base", "--is-ancestor", commit, "HEAD"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def head(repository: Path = ROOT) -> str:
    """Return the checked-out commit."""
    return _git(repository, "rev-parse", "HEAD").decode().strip()


def _git(repository: Path, *arguments: str) -> bytes:
    return subprocess.run(["git", "-C", str(repository), *arguments], capture_output=True, check=True).stdout
