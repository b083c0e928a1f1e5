"""The version, the metadata of both distributions, the list of releases and the workflow that publishes."""

import re
import subprocess
import tomllib
import zipfile
from datetime import date
from importlib import import_module
from importlib.metadata import version as installed
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.release.environments import PYTHONS
from tests.repo.tree import ROOT, files, name
from tests.support.releases import (
    RELEASES,
    BadReleases,
    Release,
    file_of,
    has_history,
    head,
    is_in_history,
    releases,
    sources,
    wheel,
)

from taskplane.agents.demo_card import demo_card
from taskplane.api import __version__
from taskplane.cli.version import versions

VERSION_FILE = "protos/taskplane/api/__init__.py"
PROJECTS = {"taskplane": "pyproject.toml", "taskplane-client": "protos/pyproject.toml"}
WORKFLOW: dict[str, Any] = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text())
FIRST = Release("0.1.0", "a" * 40, date(2026, 1, 31))
ENTRY = '[[release]]\nversion = "{}"\ncommit = "{}"\ndate = {}\n'
history = pytest.mark.skipif(not has_history(), reason="there is no git repository with all commits")


def project(distribution: str) -> dict[str, Any]:
    return dict(tomllib.loads((ROOT / PROJECTS[distribution]).read_text())["project"])


def git(repository: Path, *arguments: str) -> None:
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", *identity, *arguments], cwd=repository, check=True, capture_output=True)


def test_the_version_is_in_one_file_only() -> None:
    """The changelog and the list of releases have versions of releases, and the page on releasing has an example."""
    elsewhere = {VERSION_FILE, "CHANGELOG.md", "deploy/releases.toml", "docs/releasing.md"}
    pattern = re.compile(rf"(?<![\d.]){re.escape(__version__)}(?!\.?\w)")
    found = {
        name(path)
        for path in files()
        if path.suffix in {".py", ".toml", ".md", ".json", ".yaml", ".yml", ".ts", ".tsx", ".html", ".proto", ""}
        and not name(path).startswith("tests/")
        and path.name != "package-lock.json"
        and pattern.search(path.read_text())
    }
    assert found - elsewhere == set()
    assert f'__version__ = "{__version__}"' in (ROOT / VERSION_FILE).read_text()


def test_distributions_command_cards_and_image_have_one_version() -> None:
    for distribution, path in PROJECTS.items():
        document = tomllib.loads((ROOT / path).read_text())
        assert document["project"]["dynamic"] == ["version"], distribution
        source = (ROOT / path).parent / document["tool"]["hatch"]["version"]["path"]
        assert source == ROOT / VERSION_FILE
    assert installed("taskplane") == __version__, "`make run` installs the version again"
    assert versions().splitlines()[0] == f"taskplane {__version__}"
    assert demo_card().version == __version__
    language_model = import_module("taskplane.agents.llm").LanguageModel
    assert language_model("test").card.version == __version__
    plan = subprocess.run(["make", "-n", "image"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert f"--build-arg VERSION={__version__} -t taskplane -t taskplane:{__version__} " in plan
    assert 'image.version="${VERSION}"' in (ROOT / "deploy" / "Dockerfile").read_text()


@pytest.mark.parametrize("distribution", PROJECTS)
def test_the_metadata_names_the_tested_versions_of_python(distribution: str) -> None:
    metadata = project(distribution)
    named = re.findall(r"Python :: (\d\.\d+)", "\n".join(metadata["classifiers"]))
    assert named == list(PYTHONS)
    assert metadata["requires-python"] == f">={PYTHONS[0]}"
    assert "Typing :: Typed" in metadata["classifiers"]
    folder = (ROOT / PROJECTS[distribution]).parent
    assert all((folder / licence).is_file() for licence in metadata["license-files"])
    assert (folder / metadata["readme"]).is_file()


def test_every_extra_is_described_and_every_described_extra_exists() -> None:
    text = "\n".join(path.read_text() for path in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
    described = {extra for group in re.findall(r"'\.\[([\w,-]+)\]'", text) for extra in group.split(",")}
    described |= set(re.findall(r"taskplane\[([\w-]+)\]", text))
    assert described == project("taskplane")["optional-dependencies"].keys() - {"dev"}


def test_both_distributions_have_the_same_licence_text() -> None:
    assert (ROOT / "protos" / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()


def test_releases_are_read_in_their_order() -> None:
    text = ENTRY.format("0.1.0", "a" * 40, "2026-01-31") + ENTRY.format("0.10.0", "b" * 40, "2026-02-28")
    assert releases(text) == [FIRST, Release("0.10.0", "b" * 40, date(2026, 2, 28))]
    assert releases("# none yet\n") == []


@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        (ENTRY.format("0.1.0", "main", "2026-01-31"), "40 hex digits"),
        (ENTRY.format("0.1.0", "a" * 39, "2026-01-31"), "40 hex digits"),
        (ENTRY.format("0.1.0", "a" * 40, '"today"'), "a day such as"),
        (ENTRY.format("0.1.0", "a" * 40, "2026-01-31T10:00:00Z"), "a day such as"),
        (ENTRY.format("first", "a" * 40, "2026-01-31"), "no version"),
        (ENTRY.format("0.1.0.dev1", "a" * 40, "2026-01-31"), "no version of a release"),
        (ENTRY.format("0.1.0", "a" * 40, "2026-01-31") * 2, "must be newer"),
        (ENTRY.format("0.1.0", "a" * 40, "2026-01-31") + 'note = "x"\n', "needs version, commit and date"),
        ('[[release]]\nversion = "0.1.0"\n', "needs version, commit and date"),
        ('[[releases]]\nversion = "0.1.0"\n', "more than [[release]]"),
    ],
)
def test_a_wrong_release_is_refused_with_its_mistake(text: str, mistake: str) -> None:
    with pytest.raises(BadReleases, match=re.escape(mistake)):
        releases(text)


@history
def test_every_release_is_a_commit_of_the_history_that_has_its_version() -> None:
    for release in releases(RELEASES.read_text()):
        assert is_in_history(release.commit), release
        assert f'__version__ = "{release.version}"' in file_of(release.commit, VERSION_FILE), release


@history
def test_a_commit_after_a_release_has_another_version() -> None:
    """The commit that lists a release has the next version already."""
    same = [release for release in releases(RELEASES.read_text()) if release.version == __version__]
    assert [release for release in same if release.commit != head()] == []


def test_a_released_version_has_a_section_in_the_changelog() -> None:
    sections = re.findall(r"^## \[(.*?)\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    missing = [release for release in releases(RELEASES.read_text()) if release.version not in sections]
    assert missing == []


@history
def test_the_sources_of_a_release_are_those_of_its_commit(tmp_path: Path) -> None:
    repository = tmp_path / "repository"
    (repository / "deploy").mkdir(parents=True)
    git(repository, "init", "-q")
    (repository / "deploy" / "a.txt").write_text("released\n")
    git(repository, "add", ".")
    git(repository, "commit", "-qm", "Release")
    release = Release("0.1.0", head(repository), FIRST.date)
    (repository / "deploy" / "a.txt").write_text("later\n")
    git(repository, "commit", "-qam", "Go on")
    assert is_in_history(release.commit, repository)
    assert (sources(release, tmp_path / "out", repository) / "deploy" / "a.txt").read_text() == "released\n"


@history
def test_the_documented_command_for_a_release_writes_a_readable_list(tmp_path: Path) -> None:
    """The command of docs/releasing.md, with a tag that has a message."""
    (command,) = re.findall(r"^```sh\n(printf .*?)```$", (ROOT / "docs" / "releasing.md").read_text(), re.M | re.S)
    (tmp_path / "deploy").mkdir()
    (tmp_path / "deploy" / "releases.toml").write_text("# Releases.\n")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "Release 0.1.0")
    git(tmp_path, "tag", "-a", "v0.1.0", "-m", "0.1.0")
    subprocess.run(["bash", "-c", command], cwd=tmp_path, check=True)
    text = (tmp_path / "deploy" / "releases.toml").read_text()
    assert releases(text) == [Release("0.1.0", head(tmp_path), FIRST.date)]


@history
def test_a_release_is_built_from_its_commit(tmp_path: Path) -> None:
    """The newest listed release, or the checked-out commit while there is none."""
    listed = releases(RELEASES.read_text())
    release = listed[-1] if listed else Release(__version__, head(), FIRST.date)
    built = wheel(release, tmp_path)
    assert built.name == f"taskplane-{release.version}-py3-none-any.whl"
    assert "taskplane/api/tasks/v1/tasks_pb2.py" in zipfile.ZipFile(built).namelist()


def test_the_workflow_publishes_the_checked_files_without_a_secret() -> None:
    text = (ROOT / ".github" / "workflows" / "release.yml").read_text()
    assert "secrets." not in text and "password" not in text
    assert WORKFLOW["permissions"] == {}
    jobs: dict[str, Any] = WORKFLOW["jobs"]
    assert set(jobs) == {"build", "publish", "publish-client"}
    commands = "\n".join(step.get("run", "") for step in jobs["build"]["steps"])
    assert ".ci/run" in commands and "make release" in commands and "make client REPOSITORY=" in commands
    assert jobs["build"]["permissions"] == {"contents": "read"}
    publish = jobs["publish"]
    assert publish["needs"] == "build" and publish["environment"] == "release"
    assert publish["permissions"] == {"id-token": "write", "attestations": "write", "contents": "read"}
    (upload,) = [step for step in publish["steps"] if "publish@" in step["uses"]]
    assert upload["with"] == {"attestations": True, "packages-dir": "dist"}
    client = jobs["publish-client"]
    assert {**client, "needs": "build", "steps": []} == {**publish, "steps": []}
    (command,) = [step["run"] for step in client["steps"] if "run" in step]
    assert command == "npm publish --provenance --access public client/*.tgz"


def test_every_action_of_the_workflow_is_pinned_by_its_commit() -> None:
    steps = [step for job in WORKFLOW["jobs"].values() for step in job["steps"]]
    used = [step["uses"] for step in steps if "uses" in step]
    assert len(used) >= 5
    assert [action for action in used if not re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", action)] == []
