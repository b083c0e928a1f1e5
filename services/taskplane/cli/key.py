"""`taskplane key`: API keys in the file of a gateway."""

import hashlib
import json
import secrets
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from taskplane.cli import exits
from taskplane.cli.options import Output
from taskplane.cli.output_file import opened, unusable
from taskplane.cli.render import print_json
from taskplane.cli.report import note, report_error
from taskplane.gateway.auth.key_file import SCOPES, read_keys
from taskplane.runtime.errors import Invalid, PlaneError

_SECRET_BYTES: Final = 32
_PRIVATE: Final = 0o600


def create_key(
    file: Path, owner: str, key_id: str, tenant: str, scopes: Sequence[str], days: int, output: Output
) -> int:
    """Add a key to a file, which is made if it is not there, and print the key. Return the exit code.

    The file keeps only the digest of the secret, so the key is printed this once. `days`: its lifetime; 0: unlimited.
    A gateway that runs reads the file again within seconds.
    """
    try:
        key = _added(file, owner, key_id or f"{owner}-{secrets.token_hex(4)}", tenant, scopes, days)
    except PlaneError as error:
        return report_error(error, output)
    if output == "text":
        print(key)
        note(f"  The key of {owner} was added to {file}; its secret is shown only once.")
        note(f"  Set TASKPLANE_GATEWAY_API_KEYS={file} for the gateway, and TASKPLANE_TOKEN for commands.")
    else:
        print_json({"key": key, "id": key.partition(".")[0], "owner": owner, "file": str(file)}, output)
    return exits.OK


def _added(file: Path, owner: str, key_id: str, tenant: str, scopes: Sequence[str], days: int) -> str:
    """Add a key to the file and return it.

    Raise Invalid, also if a gateway would refuse the file with this key; the file is unchanged then.
    """
    unknown = sorted(set(scopes) - SCOPES)
    if unknown:
        known = ", ".join(sorted(SCOPES))
        raise Invalid(f"unknown scope: {', '.join(unknown)}", reason="BAD_SCOPE", suggestion=f"The scopes are {known}.")
    if "." in key_id:
        raise Invalid(f"the id {key_id!r} must not contain a dot", reason="BAD_KEY_ID")
    try:
        is_new = not file.exists() or not file.stat().st_size
        before = b"" if is_new else file.read_bytes()
        if not is_new and key_id in read_keys(before, file, ""):
            raise Invalid(
                f"{file} already has a key with the id {key_id!r}",
                reason="KEY_EXISTS",
                suggestion="Choose another --id.",
            )
        secret = secrets.token_urlsafe(_SECRET_BYTES)
        digest = hashlib.sha256(secret.encode()).hexdigest()
        table = _table(key_id, digest, owner, tenant, scopes, days).encode()
        content = before.rstrip(b"\n") + b"\n\n" * bool(before) + table
        read_keys(content, file, "")
        with opened(file) as target:
            target.write(content)
        if is_new:
            file.chmod(_PRIVATE)
    except OSError as error:
        raise unusable(file, error) from error
    return f"{key_id}.{secret}"


def _table(key_id: str, digest: str, owner: str, tenant: str, scopes: Sequence[str], days: int) -> str:
    values: dict[str, str] = {"id": key_id, "sha256": digest, "owner": owner, "tenant": tenant}
    lines = ["[[keys]]", *(f"{name} = {_quoted(value)}" for name, value in values.items())]
    lines.append(f"scopes = [{', '.join(map(_quoted, scopes))}]")
    if days:
        lines.append(f"expires = {datetime.now(UTC) + timedelta(days=days):%Y-%m-%dT%H:%M:%SZ}")
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    """Return a basic string of TOML. Raise Invalid for control characters."""
    if not text.isprintable():
        raise Invalid(f"{text!r} must not contain control characters", reason="BAD_NAME")
    return json.dumps(text, ensure_ascii=False)
