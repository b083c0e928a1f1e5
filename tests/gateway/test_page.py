"""The web page over HTTP: its addresses, its files, and the substitute if it was not built."""

import gzip
import re
from collections.abc import AsyncGenerator
from pathlib import Path
from urllib.parse import urljoin

import httpx
import pytest
import pytest_asyncio
from tests.gateway.built_page import INDEX, SCRIPT, build_page
from tests.gateway.plane import Plane, open_behind, open_front, said

from taskplane.agents.demo import Demo

BROWSER = {"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}
PAGES = (
    "/ui",
    "/ui/sessions/s",
    "/ui/sessions/a%2Fb?task=t",
    "/ui/agents",
    "/ui/agents/demo",
    "/ui/ops",
    "/ui/ops/tasks/t",
)
ASSETS = re.compile(r'(?:src|href)="([^"]*/assets/[^"]*)"')
HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
        "media-src 'self' blob:; connect-src 'self'; frame-src 'self' blob:; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def page(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Plane, None]:
    """A gateway with a small page."""
    folder = tmp_path_factory.mktemp("page")
    async with open_behind(folder) as behind, open_front(behind, page=build_page(folder / "dist")) as plane:
        yield plane


def is_safe(reply: httpx.Response) -> bool:
    return {name: reply.headers.get(name) for name in HEADERS} == HEADERS


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("path", ["/", *PAGES, *(path.replace("?", "/?") for path in PAGES), "/ui/", "/ui/ops/"])
async def test_every_address_of_the_page_serves_it_with_relative_links(page: Plane, path: str) -> None:
    """Links are relative to the document, with and without a trailing slash and in a session, so they work below any
    path of a proxy."""
    reply = await page.http.get(path, headers=BROWSER)
    assert (reply.status_code, reply.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert reply.headers["cache-control"] == "no-cache"
    assert is_safe(reply)
    found = ASSETS.findall(reply.text)
    assert len(found) == len(ASSETS.findall(INDEX)) == 3
    for address in found:
        there = urljoin(f"http://proxy.example/base{path}", address)
        assert there.startswith("http://proxy.example/base/ui/assets/")
        assert (await page.http.get(there.removeprefix("http://proxy.example/base"))).status_code == 200


@pytest.mark.asyncio(loop_scope="module")
async def test_the_root_is_the_page_for_browsers_only(page: Plane) -> None:
    """A2A clients POST to the root. A GET of other clients is refused with 405."""
    for accept in ("*/*", "application/json", "text/event-stream"):
        refused = await page.http.get("/", headers={"Accept": accept})
        assert (refused.status_code, refused.headers["allow"]) == (405, "POST")
        assert refused.json()["code"] == "METHOD_NOT_ALLOWED"
    assert "Accept" in (await page.http.get("/", headers=BROWSER)).headers["vary"]
    sent = await page.result("SendMessage", {"message": said("hello")}, accept=BROWSER["Accept"])
    assert sent["task"]["status"]["state"] == "TASK_STATE_COMPLETED"


@pytest.mark.asyncio(loop_scope="module")
async def test_an_unchanged_document_is_answered_with_304(page: Plane) -> None:
    first = await page.http.get("/ui", headers=BROWSER)
    again = await page.http.get("/ui", headers={**BROWSER, "If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", first.headers["etag"])
    deeper = await page.http.get("/ui/sessions/s", headers={**BROWSER, "If-None-Match": first.headers["etag"]})
    assert deeper.status_code == 200
    head = await page.http.head("/ui", headers=BROWSER)
    assert (head.status_code, head.content, head.headers["etag"]) == (200, b"", first.headers["etag"])
    assert head.headers["content-length"] == str(len(first.content))


@pytest.mark.asyncio(loop_scope="module")
async def test_a_file_is_cached_for_ever_and_sent_compressed_if_accepted(page: Plane) -> None:
    """The build has compressed it, so the gateway does not."""
    path = "/ui/assets/index-1.js"
    plain = await page.http.get(path, headers={"Accept-Encoding": "identity"})
    assert (plain.content, plain.headers["content-type"]) == (SCRIPT, "text/javascript; charset=utf-8")
    assert plain.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert plain.headers["vary"] == "Accept-Encoding"
    assert is_safe(plain)
    for accepted in ("gzip", "br, gzip;q=0.5", "gzip, deflate, br"):
        packed = await page.http.get(path, headers={"Accept-Encoding": accepted})
        assert packed.headers["content-encoding"] == "gzip"
        assert int(packed.headers["content-length"]) == len(gzip.compress(SCRIPT)) < len(SCRIPT)
        assert packed.content == SCRIPT
        assert packed.headers["etag"] != plain.headers["etag"]
    for refused in ("br", "gzip;q=0", "br, gzip; q=0.0"):
        assert "content-encoding" not in (await page.http.get(path, headers={"Accept-Encoding": refused})).headers
    for reply in (plain, packed):
        known = {"If-None-Match": reply.headers["etag"], "Accept-Encoding": "gzip" if reply is packed else "identity"}
        assert (await page.http.get(path, headers=known)).status_code == 304
    style = await page.http.get("/ui/assets/index-1.css")
    assert (style.headers["content-type"], style.text) == ("text/css; charset=utf-8", "body { margin: 0 }")
    assert (await page.http.get("/ui/assets/icon-1.svg")).headers["content-type"] == "image/svg+xml"
    assert (await page.http.get("/ui/licenses.txt")).text == "MIT\n"


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(
    "path",
    [
        "/ui/assets/none.js",
        "/ui/assets/index-1.js.gz",
        "/ui/assets/..%2Findex.html",
        "/ui/assets/%2E%2E%2Flicenses.txt",
        "/ui/assets/more/none.js",
        "/ui/assets",
        "/assets/index-1.js",
        "/index.html",
    ],
)
async def test_other_files_and_paths_are_404(page: Plane, path: str) -> None:
    """Neither files beside the assets nor a page at other paths are served."""
    reply = await page.http.get(path, headers=BROWSER)
    assert (reply.status_code, reply.json()["error"] != "") == (404, True)


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(
    "path",
    [
        "/ui/none",
        "/ui/none/",
        "/ui/index.html",
        "/ui/sessions",
        "/ui/sessions/a/b",
        "/ui/ops/none",
        "/ui/ops/tasks/t/x",
    ],
)
async def test_an_unknown_address_below_ui_is_the_page_with_404_for_browsers(page: Plane, path: str) -> None:
    """B33: the page shows that the address is unknown. Other clients get the error."""
    reply = await page.http.get(path, headers=BROWSER)
    assert (reply.status_code, reply.headers["content-type"]) == (404, "text/html; charset=utf-8")
    assert is_safe(reply)
    assert (reply.headers["cache-control"], "etag" in reply.headers) == ("no-cache", False)
    there = urljoin(f"http://proxy.example/base{path}", ASSETS.findall(reply.text)[0])
    assert (await page.http.get(there.removeprefix("http://proxy.example/base"))).status_code == 200
    for accept in ("*/*", "application/json"):
        refused = await page.http.get(path, headers={"Accept": accept})
        assert (refused.status_code, refused.json()["code"]) == (404, "NO_SUCH_ROUTE")


@pytest.mark.asyncio(loop_scope="module")
async def test_a_post_to_the_page_is_refused_with_405(page: Plane) -> None:
    for path in ("/ui", "/ui/assets/index-1.js", "/ui/sessions/s"):
        refused = await page.http.post(path, json={})
        assert (refused.status_code, refused.headers["allow"]) == (405, "GET")


async def test_without_a_built_page_a_substitute_explains_the_build(tmp_path: Path) -> None:
    """S2: it needs no script and no file. Texts of agents are escaped, and only the default agent is named."""
    hostile = Demo()
    hostile.card = type(hostile.card)(
        name="<b>bold</b>", description="<img src=x onerror=alert(1)>", version="1", skills=()
    )
    (tmp_path / "dist").mkdir()
    (tmp_path / "dist" / "not-built.txt").write_text("npm is missing & <more>\n\nnpm ci:\nfile at /some/place\n")
    agents = (("odd", hostile), ("demo", Demo()))
    async with open_behind(tmp_path, *agents) as behind, open_front(behind, page=tmp_path / "dist") as plane:
        for path in ("/", *PAGES, "/ui/"):
            reply = await plane.http.get(path, headers=BROWSER)
            assert (reply.status_code, reply.headers["content-type"]) == (200, "text/html; charset=utf-8")
            assert is_safe(reply)
            for link in re.findall(r'href="(?!data:)([^"]*)"', reply.text):
                there = urljoin(f"http://proxy.example/base{path}", link)
                assert (await plane.http.get(there.removeprefix("http://proxy.example/base"))).status_code == 200
        reply = await plane.http.get("/ui")
        assert "make ui" in reply.text
        assert "npm is missing &amp; &lt;more&gt;" in reply.text
        assert "/some/place" not in reply.text
        assert "<script" not in reply.text
        assert "<img" not in reply.text
        assert "&lt;b&gt;bold&lt;/b&gt;" in reply.text
        assert "agents/demo" not in reply.text
        for path in ("/ui/assets/index-1.js", "/ui/licenses.txt"):
            missing = await plane.http.get(path)
            assert (missing.status_code, missing.json()["code"]) == (404, "NO_SUCH_FILE")


async def test_without_a_page_folder_a_substitute_says_so(tmp_path: Path) -> None:
    async with open_behind(tmp_path) as behind, open_front(behind, page=tmp_path / "none") as plane:
        assert "does not contain it" in (await plane.http.get("/ui")).text
