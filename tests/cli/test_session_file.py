"""`taskplane session export` and `import` against a real plane."""

import json
from pathlib import Path

from tests.cli.command import json_of, session_of, taskplane


def test_a_session_is_written_to_a_file_and_brought_in_again(url: str, tmp_path: Path) -> None:
    """S: under its own id and under another one; a file that is there already is replaced only by a whole one."""
    session, file = session_of(url, "hello there", "fail for a reason"), tmp_path / "session.ndjson"
    written = taskplane("session", "export", session, "-O", str(file), "--url", url)
    assert (written.returncode, written.stdout) == (0, ""), written.stderr
    body = file.read_bytes()
    assert json.loads(body.splitlines()[-1])["tasks"] == 2
    assert taskplane("session", "export", session, "--url", url).stdout.encode() == body

    again = taskplane("session", "import", str(file), "--url", url)
    assert (again.returncode, again.stderr.splitlines()[-1].strip()) == (1, "SESSION_EXISTS")
    made = taskplane("session", "import", str(file), "--id", "another", "--url", url)
    assert (made.returncode, made.stdout) == (0, "session  another  hello there\n"), made.stderr
    shown = json_of(url, "session", "show", "another")
    assert [info["state"] for info in shown["taskInfos"]] == ["completed", "failed"]

    assert taskplane("session", "delete", session, "--yes", "--url", url).returncode == 0
    assert taskplane("session", "export", session, "-O", str(file), "--url", url).returncode == 5
    assert file.read_bytes() == body
    assert taskplane("session", "import", "-", "--url", url, stdin=body.decode()).returncode == 0
    assert taskplane("session", "export", session, "--url", url).stdout.encode() == body


def test_a_file_that_is_not_whole_or_not_there_is_refused(url: str, tmp_path: Path) -> None:
    """S: with the line, and the exit code of what is wrong."""
    file = tmp_path / "cut.ndjson"
    body = taskplane("session", "export", session_of(url, "hello"), "--url", url).stdout
    file.write_text(body[:-40])
    refused = taskplane("session", "import", str(file), "--id", "cut", "--url", url)
    assert refused.returncode == 1
    assert f"line {len(body.splitlines())}" in refused.stderr
    missing = taskplane("session", "import", str(tmp_path / "none"), "--url", url)
    assert (missing.returncode, missing.stderr.splitlines()[-1].strip()) == (2, "BAD_FILE")
