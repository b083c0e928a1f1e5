"""`taskplane artifact` against a real plane."""

import json
from pathlib import Path

from tests.cli.command import chat_once, json_of, taskplane


def test_artifacts_are_listed_and_saved_by_id_and_name(url: str, tmp_path: Path) -> None:
    """P7: each artifact is saved whole, even if it arrived in pieces."""
    task = chat_once(url, "artifact")["taskId"]
    listed = json_of(url, "artifact", "list", task)
    names = [one["name"] for one in listed]
    assert names == ["Words", "Figures", "Table"]
    lines = taskplane("artifact", "list", task, "--url", url).stdout.splitlines()
    assert lines[0].split() == ["ARTIFACT", "NAME", "UPDATED", "VERSIONS"]
    assert [line.split()[0] for line in lines[1:]] == [one["artifactId"] for one in listed]
    for named in ("Words", listed[0]["artifactId"]):
        assert taskplane("artifact", "get", task, named, "--version", "1", "--url", url).stdout == "A few words."
        assert taskplane("artifact", "get", task, named, "--url", url).stdout == "A few words."
    file = tmp_path / "figures.json"
    done = taskplane("artifact", "get", task, "Figures", "--file", str(file), "--url", url)
    assert (done.returncode, done.stdout) == (0, "")
    assert json.loads(file.read_text()) and str(file) in done.stderr


def test_the_only_artifact_needs_no_name(url: str) -> None:
    task = chat_once(url, "chunks 20 10")["taskId"]
    assert len(taskplane("artifact", "get", task, "--url", url).stdout) >= 200


def test_an_unknown_or_ambiguous_artifact_is_not_saved(url: str, tmp_path: Path) -> None:
    file = tmp_path / "out"
    many, none = chat_once(url, "artifact")["taskId"], chat_once(url, "hello")["taskId"]
    for task, name, code, exit_code in (
        (many, "", "WHICH_ARTIFACT", 1),
        (many, "Nothing", "ARTIFACT_NOT_FOUND", 5),
        (none, "", "ARTIFACT_NOT_FOUND", 5),
        ("x" * 32, "a", "TASK_NOT_FOUND", 5),
        (many, "Words --version 2", "VERSION_NOT_FOUND", 5),
    ):
        arguments = ["artifact", "get", task, *name.split(), "--file", str(file)]
        refused = taskplane(*arguments, "--url", url, "-o", "json")
        assert (refused.returncode, json.loads(refused.stderr)["error"]["code"]) == (exit_code, code)
    assert not file.exists()
    text = taskplane("artifact", "list", none, "--url", url)
    assert (text.returncode, text.stdout, text.stderr) == (0, "", "No artifacts.\n")
