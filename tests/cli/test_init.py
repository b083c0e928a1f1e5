"""`taskplane init`: a small agent with its test."""

import ast
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder
from tests.cli.command import PATIENCE, chat_once, dev, environment, taskplane
from tests.repo.tree import ROOT

from taskplane.cli.init import FILES, class_of, name_of


@pytest.mark.more
def test_its_agent_is_served_and_its_test_passes(tmp_path: Path) -> None:
    """P14: the files are short and work without edits, and the printed commands name them."""
    done = taskplane("init", "my greeter", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    folder = tmp_path / "my greeter"
    assert {file.name for file in folder.iterdir()} == set(FILES)
    assert len((folder / "agent.py").read_text().splitlines()) <= 15
    assert "cd 'my greeter'\n" in done.stdout and "taskplane dev --agent agent:MyGreeter --reload" in done.stdout
    tested = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert tested.returncode == 0 and "1 passed" in tested.stdout, tested.stdout
    with dev("--agent", "agent:MyGreeter", cwd=folder) as plane:
        assert chat_once(plane.url, "one two three")["text"] == "Your message has 3 words."


@pytest.mark.parametrize("name", FILES)
def test_nothing_is_overwritten(tmp_path: Path, name: str) -> None:
    """P14: one existing file of the template is enough to write nothing. Other files do not matter."""
    (tmp_path / "other.py").touch()
    (tmp_path / name).symlink_to("nowhere")
    done = taskplane("init", cwd=tmp_path)
    assert done.returncode == 2
    assert name in done.stderr and "FILE_EXISTS" in done.stderr and "Traceback" not in done.stderr
    assert {file.name for file in tmp_path.iterdir()} == {"other.py", name}
    (tmp_path / name).unlink()
    assert taskplane("init", cwd=tmp_path).returncode == 0


def test_a_folder_that_cannot_hold_files_is_refused(tmp_path: Path) -> None:
    """P14: the error has the reason of the system."""
    (tmp_path / "file").touch()
    for place in ("file", "file/below"):
        done = taskplane("init", place, cwd=tmp_path)
        assert done.returncode == 2
        assert place in done.stderr and "BAD_FILE" in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("folder", "name", "made"),
    [
        ("word-counter", "word-counter", "WordCounter"),
        ("My Agent_2", "my-agent-2", "MyAgent2"),
        ("3d", "3d", "Agent3d"),
        ("größe", "gr-e", "GrE"),
        ("none", "none", "NoneAgent"),
        ("change", "change", "ChangeAgent"),
        ('"""', "agent", "Agent"),
        ("x" * 99, "x" * 40, "X" + "x" * 39),
    ],
)
def test_the_name_is_made_from_the_folder(tmp_path: Path, folder: str, name: str, made: str) -> None:
    """P14: any folder name gives a valid agent name and a valid class name of Python."""
    assert name_of(tmp_path / folder) == name
    assert class_of(name) == made
    assert made.isidentifier()
    assert taskplane("init", folder, cwd=tmp_path).returncode == 0
    for file in ("agent.py", "test_agent.py"):
        ast.parse((tmp_path / folder / file).read_text())


def test_the_templates_are_in_the_wheel(tmp_path: Path) -> None:
    """P14: an installed command has the templates too."""
    (wheel,) = WheelBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"])
    names = zipfile.ZipFile(wheel).namelist()
    assert {f"taskplane/cli/templates/{name}.template" for name in FILES} <= set(names)
    assert "taskplane/testing/__init__.py" in names
