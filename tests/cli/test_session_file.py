"""`taskplane session export` and `import` against a real plane."""

import json
import os
from pathlib import Path

import pytest
from tests.cli.command import json_of, session_of, taskplane

from taskplane.cli.output_file import opened


def test_a_session_is_exported_to_a_file_and_imported_again(url: str, tmp_path: Path) -> None:
    """S: under its own id and under another one. An existing file is replaced only by a complete one."""
    session, file = session_of(url, "hello there", "fail for a reason"), tmp_path / "session.ndjson"
    written = taskplane("session", "export", session, "-O", str(file), "--url", url)
    assert (written.returncode, written.stdout) == (0, ""), written.stderr
    body = file.read_bytes()
    assert json.loads(body.splitlines()[-1])["tasks"] == 2
    assert taskplane("session", "export", session, "--url", url).stdout.encode() == body

    again = taskplane("session", "import", str(file), "--url", url)
    assert (again.returncode, again.stderr.splitlines()[-1].strip()) == (1, "SESSION_EXISTS")
    assert "--id" in again.stderr
    made = taskplane("session", "import", str(file), "--id", "another", "--url", url)
    assert (made.returncode, made.stdout) == (0, "session  another  hello there\n"), made.stderr
    shown = json_of(url, "session", "show", "another")
    assert [info["state"] for info in shown["taskInfos"]] == ["completed", "failed"]

    assert taskplane("session", "delete", session, "--yes", "--url", url).returncode == 0
    assert taskplane("session", "export", session, "-O", str(file), "--url", url).returncode == 5
    assert file.read_bytes() == body
    assert taskplane("session", "import", "-", "--url", url, stdin=body.decode()).returncode == 0
    assert taskplane("session", "export", session, "--url", url).stdout.encode() == body


def test_a_session_is_exported_as_a_document_or_as_a_transcript(url: str, tmp_path: Path) -> None:
    """S: to a file as well; another format is refused."""
    session, file = session_of(url, "hello there"), tmp_path / "session.md"
    document = json.loads(taskplane("session", "export", session, "--format", "json", "--url", url).stdout)
    assert (document["format"], len(document["tasks"])) == ("taskplane-session", 1)
    written = taskplane("session", "export", session, "--format", "markdown", "-O", str(file), "--url", url)
    assert (written.returncode, written.stdout) == (0, ""), written.stderr
    assert file.read_text().startswith("# hello there\n\n## You · ")
    assert taskplane("session", "export", session, "--format", "pdf", "--url", url).returncode == 2


def test_importing_an_incomplete_or_missing_file_is_refused(url: str, tmp_path: Path) -> None:
    """S: the error names the line of an incomplete file; the exit code is 1, and 2 for a missing file."""
    file = tmp_path / "cut.ndjson"
    body = taskplane("session", "export", session_of(url, "hello"), "--url", url).stdout
    file.write_text(body[:-40])
    refused = taskplane("session", "import", str(file), "--id", "cut", "--url", url)
    assert refused.returncode == 1
    assert f"line {len(body.splitlines())}" in refused.stderr
    missing = taskplane("session", "import", str(tmp_path / "none"), "--url", url)
    assert (missing.returncode, missing.stderr.splitlines()[-1].strip()) == (2, "BAD_FILE")


def test_a_file_is_replaced_only_by_a_complete_one_behind_its_links(tmp_path: Path) -> None:
    file, link, beside = tmp_path / "file", tmp_path / "link", tmp_path / "file.part"
    file.write_text("old")
    file.chmod(0o640)
    beside.write_text("of somebody else")
    link.symlink_to("file")
    with pytest.raises(KeyError), opened(link) as target:
        target.write(b"half")
        raise KeyError
    assert file.read_text() == "old"
    with opened(link) as target:
        target.write(b"new")
        assert file.read_text() == "old"
    assert (link.is_symlink(), file.read_text(), file.stat().st_mode & 0o777) == (True, "new", 0o640)
    assert beside.read_text() == "of somebody else"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "file.part", "link"]


def test_a_link_to_a_missing_file_creates_that_file(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("file")
    with opened(tmp_path / "link") as target:
        target.write(b"new")
    assert ((tmp_path / "link").is_symlink(), (tmp_path / "file").read_text()) == (True, "new")


def test_pipes_devices_and_open_files_are_written_and_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    for name in (pipe, Path(f"/dev/fd/{reader}")):
        with opened(name) as target:
            target.write(b"new")
        assert os.read(reader, 9) == b"new"
    os.close(reader)
    assert pipe.is_fifo()
    with (tmp_path / "file").open("wb+") as file:
        with opened(Path(f"/dev/fd/{file.fileno()}")) as target:
            target.write(b"new")
        assert file.read() == b"new"
    with opened(Path("/dev/null")) as target:
        target.write(b"new")
    assert Path("/dev/null").is_char_device()


@pytest.mark.parametrize("content", ["a text\n", '{"format":"taskplane-session"}\n', "[1]", ""])
def test_the_error_for_a_file_that_is_not_an_export_names_the_right_format(
    url: str, tmp_path: Path, content: str
) -> None:
    file = tmp_path / "wrong.ndjson"
    file.write_text(content)
    done = taskplane("session", "import", str(file), "--url", url)
    assert (done.returncode, done.stdout) == (1, "")
    told, suggested, _ = done.stderr.splitlines()
    assert told.startswith("✗ line 1 is ")
    assert "saved as NDJSON" in suggested
    assert "taskplane session export" in suggested
