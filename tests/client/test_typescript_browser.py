"""The client in TypeScript in a browser, with the official client in JavaScript."""

import subprocess
from pathlib import Path

import pytest
from tests.client.typescript import packages
from tests.gateway.plane import Plane, fresh, said
from tests.page.browser import launched, missing
from tests.support.cutting import CuttingProxy
from tests.support.node import NO_PACKAGES, NODE, PAGE

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.more,
    packages,
    pytest.mark.skipif(bool(NO_PACKAGES), reason=NO_PACKAGES),
    pytest.mark.skipif(bool(missing()), reason=missing()),
]
_BUNDLER = PAGE / "node_modules" / "rolldown" / "bin" / "cli.mjs"
_ENTRY = "clients/typescript/test/browser.ts"


def bundled(folder: Path) -> str:
    """Return one script with the official client and the package."""
    script = folder / "bundle.js"
    command = [NODE, str(_BUNDLER), str(PAGE.parents[1] / _ENTRY), "--format", "iife", "--platform", "browser"]
    done = subprocess.run([*command, "--file", str(script)], cwd=PAGE, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return script.read_text()


async def test_a_page_in_a_browser_resumes_a_stream_that_is_cut_every_20_events(
    plane: Plane, proxy: CuttingProxy, tmp_path: Path
) -> None:
    """P12: with each event once."""
    async with launched() as browser:
        page = await browser.new_page()
        await page.goto(f"http://127.0.0.1:{proxy.port}/healthz")
        await page.evaluate(bundled(tmp_path))
        proxy.cut_every = 20
        message = said("chunks 197 8", contextId=fresh())
        found = await page.evaluate("message => run(message)", message)
    payloads = [next(iter(event.values())) for event in found["events"]]
    places = [int(each["metadata"]["taskplane.dev/cursor"].rpartition("-")[2]) for each in payloads]
    assert places == list(range(1, 201))
    assert proxy.cuts >= 9
    assert (found["title"], found["change"]) == ("chunks 197 8", "snapshot")
