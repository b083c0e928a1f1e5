"""`taskplane key create`: the key works on a gateway with that file."""

import json
import stat
import tomllib
from pathlib import Path

import pytest
from tests.cli.command import dev, taskplane


def test_a_running_gateway_accepts_a_created_key(tmp_path: Path) -> None:
    """V2: the file keeps only the digest, and the key has exactly the named scopes."""
    file = tmp_path / "keys.toml"
    first = taskplane("key", "create", "ann", "--file", str(file))
    assert first.returncode == 0, first.stderr
    key = first.stdout.strip()
    assert key.partition(".")[2] not in file.read_text()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    with dev(cwd=tmp_path, env={"TASKPLANE_GATEWAY_API_KEYS": str(file)}) as plane:
        sent = taskplane("chat", "-m", "hello", "--url", plane.url, env={"TASKPLANE_TOKEN": key})
        assert (sent.returncode, sent.stdout) == (0, "hello\n"), sent.stderr
        refused = taskplane("ops", "--url", plane.url, env={"TASKPLANE_TOKEN": key})
        assert (refused.returncode, refused.stderr.splitlines()[-1]) == (4, "  OPERATORS_ONLY")


def test_keys_are_added_below_the_content_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "keys.toml"
    assert taskplane("key", "create", "ann", "--id", "one", "--file", str(file)).returncode == 0
    file.write_text("# ours\n" + file.read_text())
    command = ("key", "create", 'Zoë "Z"', "--id", "two", "--scope", "operate", "--days", "2", "--tenant", "acme")
    second = taskplane(*command, "--file", str(file), "-o", "json")
    assert json.loads(second.stdout)["key"].startswith("two."), second.stderr
    assert file.read_text().startswith("# ours\n")
    one, two = tomllib.loads(file.read_text())["keys"]
    assert (one["id"], one["owner"], one["scopes"]) == ("one", "ann", ["read", "write"])
    assert (two["owner"], two["tenant"], two["scopes"]) == ('Zoë "Z"', "acme", ["operate"])
    assert two["expires"].tzinfo is not None


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["ann", "--id", "one"], "KEY_EXISTS"),
        (["ann", "--id", "a.b"], "BAD_KEY_ID"),
        (["ann", "--scope", "all"], "BAD_SCOPE"),
        (["a\nb"], "BAD_NAME"),
        (["eve", "--tenant", "api"], "BAD_KEY_FILE"),
    ],
)
def test_a_refused_key_leaves_the_file_unchanged(tmp_path: Path, arguments: list[str], code: str) -> None:
    file = tmp_path / "keys.toml"
    taskplane("key", "create", "ann", "--id", "one", "--file", str(file))
    before = file.read_bytes()
    done = taskplane("key", "create", *arguments, "--file", str(file))
    assert (done.returncode, done.stderr.splitlines()[-1]) == (2, f"  {code}")
    assert file.read_bytes() == before


def test_a_refused_key_makes_no_file(tmp_path: Path) -> None:
    file = tmp_path / "keys.toml"
    done = taskplane("key", "create", "eve", "--tenant", "v1", "--file", str(file))
    assert (done.returncode, done.stderr.splitlines()[-1]) == (2, "  BAD_KEY_FILE")
    assert "the tenant 'v1' is reserved" in done.stderr
    assert not file.exists()


@pytest.mark.parametrize("content", [b"not toml at all", b"# \xff\n"])
def test_a_file_that_is_not_a_key_file_is_refused(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "keys.toml"
    file.write_bytes(content)
    done = taskplane("key", "create", "ann", "--file", str(file))
    assert (done.returncode, done.stderr.splitlines()[-1]) == (2, "  BAD_KEY_FILE")
    assert file.read_bytes() == content
