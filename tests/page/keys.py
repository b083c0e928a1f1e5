"""API keys of a plane, and signing in with them."""

import hashlib
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import httpx
from playwright.async_api import Browser
from tests.page.app import App
from tests.page.seen import Seen
from tests.system.plane import STEADY, running

SECRET: Final = "the-secret-of-all-keys"


def with_keys(folder: Path, **scopes: tuple[str, ...]) -> dict[str, str]:
    """Write a file of keys, each with the name and the scopes of its owner, and return the setting that names the
    file."""
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


@asynccontextmanager
async def as_user(browser: Browser, url: str, name: str, path: str = "/ui") -> AsyncGenerator[App]:
    """Open the page of a plane in a browser with empty storage, and sign in as the owner of a key."""
    context = await browser.new_context()
    seen = Seen()
    seen.watch(context)
    app = App(await context.new_page(), url, seen)
    await app.page.goto(f"{app.url}{path}")
    await sign_in(app, name)
    yield app
    await context.close()


@asynccontextmanager
async def signed_in(browser: Browser, folder: Path, name: str, **scopes: tuple[str, ...]) -> AsyncGenerator[App]:
    """Start a plane with keys of these owners, and show its page to one of them, as `as_user` does."""
    async with (
        running("one", folder, {**STEADY, **with_keys(folder, **scopes)}) as plane,
        as_user(browser, plane.url, name) as app,
    ):
        yield app
