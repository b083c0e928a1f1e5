"""API keys in a TOML file, identified by the SHA-256 of their secret and reloaded when the file changes."""

import hashlib
import hmac
import logging
import re
import time
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, cast

from taskplane.api.reserved_names import RESERVED
from taskplane.runtime.errors import Invalid, Unauthenticated

_log = logging.getLogger(__name__)
_FIELDS: Final = frozenset({"id", "sha256", "tenant", "owner", "scopes", "expires"})
SCOPES: Final = frozenset({"read", "write", "operate"})
_DEFAULT_SCOPES: Final = frozenset({"read", "write"})
# Seconds between two checks of the file.
_RELOAD_INTERVAL: Final = 5.0
_DIGEST: Final = re.compile(r"[0-9a-fA-F]{64}")
_NO_DIGEST: Final = "0" * 64


@dataclass(frozen=True, slots=True)
class Key:
    """An API key and its owner. `expires` is in seconds since 1970; 0: never.

    One that may write may read, too.
    """

    id: str
    sha256: str
    tenant: str
    owner: str
    may_read: bool
    may_write: bool
    may_operate: bool
    expires: float


class KeyFile:
    """The keys of one file.

    The file has `[[keys]]` tables with `id`, `sha256` (of the secret, in hexadecimal), `owner`, and optionally
    `tenant`, `scopes` ("read", "write" and "operate"; the first two by default) and `expires` (a TOML date-time).
    Clients send `<id>.<secret>`. While a changed file has a mistake, the keys read before count, and the log has an
    error.
    """

    def __init__(self, path: Path, tenant: str) -> None:
        """Read the file. Raise Invalid if it cannot be read or a key is incomplete."""
        self._path = path
        self._tenant = tenant
        self._stamp = 0
        self._refused_stamp = 0
        self._checked_at = 0.0
        self._keys: Mapping[str, Key] = {}
        self._load()

    def find(self, token: str) -> Key:
        """Return the key of `token`, in constant time. Raise Unauthenticated `BAD_CREDENTIALS` if it is unknown, wrong
        or expired."""
        self._refresh()
        name, _, secret = token.partition(".")
        key = self._keys.get(name)
        shown = hashlib.sha256(secret.encode()).hexdigest()
        right = hmac.compare_digest(shown, key.sha256 if key else _NO_DIGEST)
        if key is None or not right or not self._is_valid(key):
            raise Unauthenticated("the API key is not valid", reason="BAD_CREDENTIALS")
        return key

    def alive(self, key: Key) -> bool:
        """Return whether the key is still in the file, unchanged, and has not expired."""
        self._refresh()
        return self._keys.get(key.id) == key and self._is_valid(key)

    def _is_valid(self, key: Key) -> bool:
        return not key.expires or time.time() < key.expires

    def _refresh(self) -> None:
        now = time.monotonic()
        if now - self._checked_at < _RELOAD_INTERVAL:
            return
        self._checked_at = now
        try:
            stamp = self._path.stat().st_mtime_ns
        except OSError:
            return
        if stamp == self._stamp:
            return
        try:
            self._load()
        except Invalid as error:
            if stamp != self._refused_stamp:
                self._refused_stamp = stamp
                _log.error("the keys read before stay valid: %s", error.message)

    def _load(self) -> None:
        """Read the file. Raise Invalid, and change nothing, if it has a mistake."""
        try:
            stamp, content = self._path.stat().st_mtime_ns, self._path.read_bytes()
        except OSError as error:
            raise _unreadable(self._path, error) from error
        self._keys, self._stamp = read_keys(content, self._path, self._tenant), stamp


def read_keys(content: bytes, path: Path, tenant: str) -> Mapping[str, Key]:
    """Return the keys by id of the content of a key file. `path` is for errors, `tenant` that of keys that name none.

    Raise Invalid `BAD_KEY_FILE` if a gateway would not take this file.
    """
    try:
        found = tomllib.loads(content.decode("utf-8-sig"))
    except ValueError as error:
        raise _unreadable(path, error) from error
    tables = cast("list[Any] | None", found.get("keys"))
    if not isinstance(tables, list) or not tables:
        raise Invalid(f"{path} has no [[keys]]", reason="BAD_KEY_FILE")
    keys = [_read(table, f"{path}: key {index + 1}", tenant) for index, table in enumerate(tables)]
    if len({key.id for key in keys}) != len(keys):
        raise Invalid(f"{path} has two keys with the same id", reason="BAD_KEY_FILE")
    return {key.id: key for key in keys}


def _read(table: Any, where: str, default_tenant: str) -> Key:
    fields: dict[str, Any] = table if isinstance(table, dict) else {}  # pyright: ignore[reportUnknownVariableType]
    unknown = sorted(fields.keys() - _FIELDS)
    if unknown:
        raise Invalid(f"{where}: unknown field {unknown[0]}", reason="BAD_KEY_FILE")
    name, digest, owner = (fields.get(field) for field in ("id", "sha256", "owner"))
    if not (isinstance(name, str) and isinstance(digest, str) and isinstance(owner, str) and name and owner):
        raise Invalid(f"{where}: id, sha256 and owner are required", reason="BAD_KEY_FILE")
    if "." in name or not _DIGEST.fullmatch(digest):
        raise Invalid(
            f"{where}: id must not contain a dot, and sha256 must have 64 hexadecimal digits", reason="BAD_KEY_FILE"
        )
    scopes = cast("list[Any] | None", fields.get("scopes", [*_DEFAULT_SCOPES]))
    if not isinstance(scopes, list) or not scopes or not all(isinstance(one, str) and one in SCOPES for one in scopes):
        raise Invalid(f'{where}: scopes must be "read", "write" or "operate"', reason="BAD_KEY_FILE")
    expires = fields.get("expires")
    if expires is not None and not isinstance(expires, datetime):
        raise Invalid(f"{where}: expires must be a date and time", reason="BAD_KEY_FILE")
    moment = 0.0
    if expires is not None:
        moment = (expires if expires.tzinfo else expires.replace(tzinfo=UTC)).timestamp()
    may_write, may_operate = "write" in scopes, "operate" in scopes
    may_read = may_write or "read" in scopes
    tenant = fields.get("tenant", default_tenant)
    if not isinstance(tenant, str):
        raise Invalid(f"{where}: tenant must be a string", reason="BAD_KEY_FILE")
    if tenant in RESERVED:
        raise Invalid(
            f"{where}: the tenant {tenant!r} is reserved, since a path of the gateway begins with it",
            reason="BAD_KEY_FILE",
            suggestion="give the tenant another name",
        )
    return Key(name, digest.lower(), tenant, owner, may_read, may_write, may_operate, moment)


def _unreadable(path: Path, error: Exception) -> Invalid:
    return Invalid(f"cannot read the API keys in {path}: {error}", reason="BAD_KEY_FILE")
