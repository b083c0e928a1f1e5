"""Database URLs: read, checked, and shown without their secrets."""

import re
from pathlib import Path
from typing import Final

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from taskplane.runtime.errors import Invalid

# The hosts of a URL: the text between the password and the path.
_HOSTS: Final = re.compile(r"(?<=://)(?:[^/?#]*@)?(?P<hosts>[^/?#@]+)")
_HOST: Final = re.compile(r"(?P<host>\[[^\]]+\]|[^:]+)(?::(?P<port>[0-9]+))?")
_DEFAULT_PORT: Final = 5432

_FORMS: Final = "use sqlite:///path/to/file.db or postgresql://user:password@host/name"


def parse(url: str) -> URL:
    """Return the parts of `url`. Invalid: it cannot be parsed, or names neither SQLite nor PostgreSQL."""
    try:
        parsed = make_url(_with_one_host(url))
    except (ArgumentError, ValueError):
        # Without its cause: the text that cannot be parsed may hold the password.
        raise Invalid("the database URL cannot be parsed", suggestion=_FORMS) from None
    if parsed.drivername not in ("sqlite", "postgresql", "postgres"):
        raise Invalid(f"the database engine {parsed.drivername} is not supported", suggestion=_FORMS)
    return parsed


def file_of(parsed: URL) -> Path:
    """Return the absolute path of a SQLite URL. Invalid: it names no file."""
    if not parsed.database or parsed.database == ":memory:":
        raise Invalid("a SQLite database must be a file", suggestion=_FORMS)
    return Path(parsed.database).absolute()


def shown(url: str) -> str:
    """Return `url` without its passwords, for logs and messages."""
    try:
        parsed = make_url(_with_one_host(url))
    except (ArgumentError, ValueError):
        return "a malformed URL"
    secrets = [key for key in parsed.query if "password" in key.lower()]
    text = parsed.difference_update_query(secrets).render_as_string(hide_password=True)
    found = hosts_of(url)
    if len(found) < 2:
        return text
    return text.replace(f"{found[0][0]}:{found[0][1]}", ",".join(f"{host}:{port}" for host, port in found), 1)


def hosts_of(url: str) -> list[tuple[str, int]]:
    """Return the hosts that `url` names before its path, with their ports; [] if it names no hosts there, or malformed
    ones."""
    found = _HOSTS.search(url)
    hosts = [_HOST.fullmatch(each) for each in found["hosts"].split(",")] if found else []
    return (
        [(each["host"].strip("[]"), int(each["port"] or _DEFAULT_PORT)) for each in hosts if each is not None]
        if all(hosts)
        else []
    )


def _with_one_host(url: str) -> str:
    """Return `url` with the first of its hosts only, which is all that SQLAlchemy reads."""
    found, hosts = _HOSTS.search(url), hosts_of(url)
    if found is None or len(hosts) < 2:
        return url
    host, port = hosts[0]
    return f"{url[: found.start('hosts')]}{host}:{port}{url[found.end('hosts') :]}"
