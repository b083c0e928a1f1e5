"""The browser that the tests of the page drive: a Chromium of the system, through Playwright's package."""

import os
import shutil
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from playwright.async_api import Browser

SETTING: Final = "TASKPLANE_TEST_CHROMIUM"
_NAMES: Final = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
# A name for the loopback interface that no browser takes for a secure context.
OTHER_HOST: Final = "plane.test"
_FLAGS: Final = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    f"--host-resolver-rules=MAP {OTHER_HOST} 127.0.0.1",
)


def chromium() -> str:
    """The path of the browser; empty if there is none."""
    if given := os.environ.get(SETTING):
        return given
    return next((path for name in _NAMES if (path := shutil.which(name))), "")


def missing() -> str:
    """The reason why no browser can be driven; empty if there is one."""
    if find_spec("playwright") is None:
        return "the package playwright is not installed"
    if not chromium():
        return f"there is no Chromium here; {SETTING} can name one"
    return ""


@asynccontextmanager
async def launched() -> "AsyncGenerator[Browser]":
    """A running browser, without a window."""
    from playwright.async_api import async_playwright

    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=chromium(), args=list(_FLAGS))
        try:
            yield browser
        finally:
            await browser.close()
