"""Commands with an stdout that is full or closed."""

import json
import os
import sys
from pathlib import Path

import pytest

from taskplane.cli.stdout import run_and_flush


def printed() -> int:
    print("a result")
    return 1


def test_a_full_stdout_is_a_typed_error(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """At the first write, and also if the error only comes with the last flush."""
    for buffering in (1, -1):
        with open("/dev/full", "w", buffering) as full:
            monkeypatch.setattr(sys, "stdout", full)
            assert run_and_flush(printed, "json") == 2
        error = json.loads(capsys.readouterr().err)["error"]
        assert (error["code"], "No space left" in error["message"]) == ("BAD_OUTPUT", True)


def test_a_closed_reader_ends_the_command_without_an_error_text(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as pipe:
        monkeypatch.setattr(sys, "stdout", pipe)
        assert run_and_flush(printed) == 1
    assert capsys.readouterr().err == ""


def test_an_error_about_a_file_is_not_reported_as_one_of_stdout(tmp_path: Path) -> None:
    def missing() -> int:
        return len((tmp_path / "none").read_text())

    with pytest.raises(FileNotFoundError):
        run_and_flush(missing)
