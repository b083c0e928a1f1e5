"""Database URLs: read, checked, and shown without their secrets."""

from pathlib import Path
from typing import Final

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from taskplane.runtime.errors import Invalid

_FORMS: Final = "use sqlite:///path/to/file.db or postgresql://user:password@host/name"


def parse(url: str) -> URL:
    """Return the parts of `url`. Invalid: it cannot be parsed, or names neither SQLite nor PostgreSQL."""
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        # Without its cause: the text that cannot be parsed may hold the password.
        raise Invalid("the database URL cannot be parsed", suggestion=_FORMS) from None
    if parsed.drivername not in ("sqlite", "postgresql", "postgres"):
        raise Invalid(f"no such database engine: {parsed.drivername}", suggestion=_FORMS)
    return parsed


def file_of(parsed: URL) -> Path:
    """Return the absolute path of a SQLite URL. Invalid: it names no file."""
    if not parsed.database or parsed.database == ":memory:":
        raise Invalid("a SQLite database must be a file", suggestion=_FORMS)
    return Path(parsed.database).absolute()


def shown(url: str) -> str:
    """Return `url` without its passwords, for logs and messages."""
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        return "a malformed URL"
    secrets = [key for key in parsed.query if "password" in key.lower()]
    return parsed.difference_update_query(secrets).render_as_string(hide_password=True)
