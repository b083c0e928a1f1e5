"""The file of API keys."""

import hashlib
import os
import re
from pathlib import Path

import pytest
from tests.repo.tree import ROOT

from taskplane.gateway.auth import key_file as module
from taskplane.gateway.auth.key_file import KeyFile
from taskplane.runtime.errors import Invalid, Unauthenticated

DIGEST = hashlib.sha256(b"secret").hexdigest()


def written(path: Path, *names: str) -> Path:
    path.write_text("\n".join(f'[[keys]]\nid = "{name}"\nsha256 = "{DIGEST}"\nowner = "ann"' for name in names))
    return path


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "no [[keys]]"),
        ("[[keys]", "cannot read"),
        ("[[keys]]\n", "id, sha256 and owner"),
        (f'[[keys]]\nid = "a.b"\nsha256 = "{DIGEST}"\nowner = "o"\n', "a dot"),
        ('[[keys]]\nid = "a"\nsha256 = "abc"\nowner = "o"\n', "64 hexadecimal digits"),
        (f'[[keys]]\nid = "a"\nsha256 = "{DIGEST}"\nowner = "o"\nscope = "x"\n', "unknown field scope"),
        (f'[[keys]]\nid = "a"\nsha256 = "{DIGEST}"\nowner = "o"\nscopes = ["admin"]\n', "scopes must be"),
        (f'[[keys]]\nid = "a"\nsha256 = "{DIGEST}"\nowner = "o"\nscopes = 5\n', "scopes must be"),
        (f'[[keys]]\nid = "a"\nsha256 = "{DIGEST}"\nowner = "o"\nscopes = [["read"]]\n', "scopes must be"),
        (f'[[keys]]\nid = "a"\nsha256 = "{DIGEST}"\nowner = "o"\ntenant = 5\n', "tenant must be"),
        (f'[[keys]]\nid = "a"\nsha256 = "{DIGEST}"\nowner = "o"\ntenant = "v1"\n', "the tenant 'v1' is reserved"),
        (f'[[keys]]\nid = "a"\nsha256 = "{"é" * 64}"\nowner = "o"\n', "64 hexadecimal digits"),
        (f'[[keys]]\nid = "a"\nsha256 = "{DIGEST}"\nowner = "o"\nexpires = 5\n', "expires"),
        (f'[[keys]]\nid = "a"\nsha256 = "{DIGEST}"\nowner = "o"\n' * 2, "same id"),
    ],
)
def test_an_invalid_file_is_refused_with_the_reason(tmp_path: Path, text: str, reason: str) -> None:
    """a2a H14: also a tenant with the name of a path."""
    path = tmp_path / "keys.toml"
    path.write_text(text)
    with pytest.raises(Invalid) as caught:
        KeyFile(path, "default")
    assert caught.value.reason == "BAD_KEY_FILE"
    assert reason in caught.value.message


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Invalid):
        KeyFile(tmp_path / "none.toml", "default")


def test_keys_are_added_and_revoked_without_a_restart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_RELOAD_INTERVAL", 0.0)
    path = written(tmp_path / "keys.toml", "one")
    keys = KeyFile(path, "default")
    one = keys.find("one.secret")
    assert (one.owner, one.tenant, one.may_write) == ("ann", "default", True)
    assert keys.alive(one)
    written(path, "two", "three")
    assert keys.find("two.secret").id == "two"
    assert not keys.alive(one)
    with pytest.raises(Unauthenticated):
        keys.find("one.secret")


def test_an_invalid_change_of_the_file_is_logged_once_and_affects_no_caller(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The keys read before stay valid until the file is valid again."""
    monkeypatch.setattr(module, "_RELOAD_INTERVAL", 0.0)
    path = written(tmp_path / "keys.toml", "one", "two")
    keys = KeyFile(path, "default")
    one = keys.find("one.secret")
    path.write_text("[[keys]")
    # File systems store coarse modification times.
    moment = path.stat().st_mtime_ns + 10**9
    os.utime(path, ns=(moment, moment))
    assert keys.alive(one)
    assert keys.find("two.secret").id == "two"
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert "cannot read" in caplog.text
    written(path, "two")
    os.utime(path, ns=(moment, moment))
    assert not keys.alive(one)
    with pytest.raises(Unauthenticated):
        keys.find("one.secret")
    assert keys.find("two.secret").id == "two"
    path.write_text("")
    os.utime(path, ns=(moment + 10**9, moment + 10**9))
    assert keys.find("two.secret").id == "two"
    assert len(caplog.records) == 2


def test_the_scope_operate_is_required_and_grants_nothing_else(tmp_path: Path) -> None:
    """V3: without scopes a key reads and writes. The scope `write` includes `read`."""
    scopes = {"a": "", "b": 'scopes = ["write"]', "c": 'scopes = ["operate"]', "d": 'scopes = ["read", "operate"]'}
    key = '[[keys]]\nid = "{}"\nsha256 = "{}"\nowner = "ann"\n{}\n'
    path = tmp_path / "keys.toml"
    path.write_text("".join(key.format(name, DIGEST, more) for name, more in scopes.items()))
    keys = KeyFile(path, "default")
    found = {name: keys.find(f"{name}.secret") for name in scopes}
    rights = {name: (one.may_read, one.may_write, one.may_operate) for name, one in found.items()}
    assert rights == {
        "a": (True, True, False),
        "b": (True, True, False),
        "c": (False, False, True),
        "d": (True, False, True),
    }


def test_the_key_table_of_the_operations_page_is_valid(tmp_path: Path) -> None:
    """P14: the table is read as it is printed."""
    page = (ROOT / "docs" / "operations.md").read_text()
    (printed,) = re.findall(r"^```toml\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    (tmp_path / "keys.toml").write_text(printed.replace("...", hashlib.sha256(b"secret").hexdigest()))
    key = KeyFile(tmp_path / "keys.toml", "other").find("ann-laptop.secret")
    assert (key.owner, key.tenant, key.may_write) == ("ann", "default", True)
