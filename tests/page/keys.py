"""API keys of a plane, and signing in with them."""

import hashlib
from pathlib import Path
from typing import Final

import httpx
from tests.page.app import App

SECRET: Final = "the-secret-of-all-keys"


def with_keys(folder: Path, **scopes: tuple[str, ...]) -> dict[str, str]:
    """Write a file of keys, each with the name and the scopes of its owner, and return the setting that names it."""
    digest = hashlib.sha256(SECRET.encode()).hexdigest()
    keys = (
        f'[[keys]]\nid = "{name}"\nsha256 = "{digest}"\nowner = "{name}"\nscopes = {list(given)}\n'
        for name, given in scopes.items()
    )
    (folder / "keys.toml").write_text("".join(keys))
    return {"TASKPLANE_GATEWAY_API_KEYS": str(folder / "keys.toml")}


def as_owner(name: str) -> dict[str, str]:
    """Return the headers of calls with the key of an owner."""
    return {"X-API-Key": f"{name}.{SECRET}"}


def as_client(url: str, name: str) -> httpx.AsyncClient:
    """Return a client with the key of an owner."""
    return httpx.AsyncClient(base_url=url, headers=as_owner(name))


async def sign_in(app: App, name: str) -> None:
    """Give the page the key of an owner."""
    await app.page.get_by_label("Key", exact=True).fill(f"{name}.{SECRET}")
    await app.button("Sign in").click()
