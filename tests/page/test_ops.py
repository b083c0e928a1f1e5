"""The work of operators with the page alone."""

import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest
from playwright.async_api import Locator, expect
from tests.page.app import App, until
from tests.page.gated import AGENT
from tests.page.keys import as_owner, as_user, sign_in, with_keys
from tests.page.seen import Seen
from tests.support.postgres import Cluster
from tests.system.plane import STEADY, running
from tests.system.wire import client, result, send, text_message

pytestmark = pytest.mark.more

if TYPE_CHECKING:
    from playwright.async_api import Browser

WAIT = 6_000
"""Milliseconds in which the view reads what it shows again."""


async def test_an_operator_finds_the_task_of_an_executor_and_cancels_it(app: App, http: httpx.AsyncClient) -> None:
    """V1, V2, P8: from the chat to the executors, to their tasks, to a growing log, to a cancel that the owner sees."""
    await app.open()
    await app.send("count 2000 50")
    await app.counted(3)
    task = (await app.messages())[-1].task
    await app.page.get_by_role("link", name="Operations").click()
    working = _table(app, "Executors").get_by_role("row").filter(has_text="Alive").first
    await working.get_by_role("rowheader").get_by_role("link").click()
    row = _table(app, "Tasks").locator(f"tr[data-id='{task}']")
    await expect(row.get_by_role("rowheader")).to_contain_text(task)
    await row.get_by_role("link", name="count 2000 50").click()
    await expect(app.page.get_by_text("count 2000 50").first).to_be_visible()
    await expect(app.page.get_by_text("Runs on executor")).to_be_visible()
    before = await _count(app)
    await until(lambda: _count(app), lambda count: count > before)
    await app.button("Cancel task").click()
    await expect(app.button("Keep it")).to_be_focused()
    await app.page.keyboard.press("Escape")
    await expect(app.button("Cancel task")).to_be_focused()
    assert (await result(http, "GetTask", {"id": task}))["status"]["state"] == "TASK_STATE_WORKING"
    await app.button("Cancel task").click()
    await app.button("Cancel it").click()
    await expect(app.page.get_by_text("Canceled after")).to_be_visible()
    await expect(app.button("Cancel task")).to_have_count(0)
    assert (await result(http, "GetTask", {"id": task}))["status"]["state"] == "TASK_STATE_CANCELED"
    await expect(_log(app).last).to_contain_text("canceled")
    await app.page.get_by_role("link", name="Open session").click()
    await app.has_states("canceled")


async def test_an_operator_sees_the_reason_of_a_failure(app: App, http: httpx.AsyncClient, user: str) -> None:
    """V1, P9, B2: the failures with their reasons; text of an agent is shown as text."""
    reason = "No file <img src=x onerror=alert(1)>"
    task = (await send(http, f"fail {reason}"))["task"]["id"]
    await send(http, "echo hello")
    await app.page.goto(f"{app.url}/ui/ops")
    await app.page.get_by_role("navigation", name="Operations").get_by_role("link", name="Failures").click()
    await app.page.get_by_label("Owner").fill(user)
    await app.page.keyboard.press("Enter")
    await expect(app.page.get_by_text("1 task", exact=True)).to_be_visible()
    failed = _table(app, "Tasks").locator(f"tr[data-id='{task}']")
    await expect(failed.get_by_role("cell").last).to_have_text(f"{reason} AGENT_ERROR")
    await failed.get_by_role("link", name=f"fail {reason}").click()
    await expect(app.page.get_by_text("Failed after")).to_be_visible()
    await expect(app.page.get_by_text(reason, exact=True).first).to_be_visible()
    last = _log(app).last
    await expect(last).to_contain_text(f"failed {reason}")
    await expect(last).to_contain_text("attempt 1, fence 1, ")
    await last.get_by_role("button").press("Enter")
    await expect(app.page.locator(".record pre")).to_contain_text('"TASK_STATE_FAILED"')
    assert await app.page.locator(".ops img").count() == 0


async def test_a_developer_sees_the_exception_with_file_and_line_in_chat_events_and_operations(app: App) -> None:
    """P9, V1: on loopback; during the run and after a reload."""
    await app.open()
    await app.send("raise no such <b>bolt</b>")
    cause = app.log.locator(".end .cause")
    for reload in (False, True):
        if reload:
            await app.reload()
        await expect(cause).to_contain_text("RuntimeError: no such <b>bolt</b>")
        await expect(cause).to_contain_text(re.compile(r"gated\.py:\d+"))
    await app.button("Show task").click()
    await app.details.get_by_role("button", name="Log").click()
    await app.details.locator("li[data-kind=status] button").last.click()
    await expect(app.details.locator(".record pre")).to_contain_text('"cause": "RuntimeError: no such <b>bolt</b>')
    task = await app.log.locator(".end").get_attribute("data-task-id")
    await app.page.goto(f"{app.url}/ui/ops/tasks/{task}")
    await expect(app.page.get_by_text("Failed after")).to_be_visible()
    await expect(app.page.locator(".ops .cause")).to_contain_text("RuntimeError: no such <b>bolt</b>")


async def test_a_user_without_the_operate_scope_does_not_see_the_exception(browser: "Browser", tmp_path: Path) -> None:
    """P9, S2: only the general sentence. The page sends no request that would be refused."""
    settings = {**STEADY, "TASKPLANE_EXECUTOR_AGENTS": AGENT, **with_keys(tmp_path, ann=("read", "write"))}
    async with running("one", tmp_path, settings) as plane, as_user(browser, plane.url, "ann") as app:
        await app.send("raise secret")
        await expect(app.log.locator(".end")).to_contain_text("failed unexpectedly")
        assert "RuntimeError" not in await app.log.inner_text()
        assert app.seen.unexpected() == []


async def test_a_task_without_text_is_listed_by_its_id(app: App, http: httpx.AsyncClient, user: str) -> None:
    """V1: others by the first line of their first message, up to a length."""
    message = text_message("", parts=[{"data": {"number": 1}}])
    bare = (await result(http, "SendMessage", {"message": message}))["task"]["id"]
    await send(http, f"echo {'long ' * 50}\nsecond line")
    await app.page.goto(f"{app.url}/ui/ops?view=tasks&owner={user}")
    links = _table(app, "Tasks").get_by_role("rowheader").get_by_role("link")
    await expect(links).to_have_text([re.compile("^echo (long )+l?o?n?g?…$"), bare])
    assert len(await links.first.inner_text()) == 120


async def test_filters_are_in_the_address(app: App, http: httpx.AsyncClient, user: str) -> None:
    """V1: an address with filters can be shared, and the browser goes back to earlier filters."""
    failed = (await send(http, "fail"))["task"]["id"]
    asked = (await send(http, "ask"))["task"]["id"]
    await app.page.goto(f"{app.url}/ui/ops?view=tasks&owner={user}")
    rows = _table(app, "Tasks").locator("tbody tr")
    await expect(rows).to_have_count(2)
    await app.page.get_by_role("combobox", name="State").select_option("Paused")
    await expect(rows).to_have_count(1)
    await expect(rows).to_have_attribute("data-id", asked)
    assert "state=paused" in app.page.url
    await app.page.reload()
    await expect(rows).to_have_attribute("data-id", asked)
    await app.page.get_by_role("combobox", name="State").select_option("Failed")
    await expect(rows).to_have_attribute("data-id", failed)
    await app.page.get_by_label("Owner").fill("nobody")
    await app.page.keyboard.press("Enter")
    await expect(app.page.get_by_text("No task matches these filters.")).to_be_visible()
    await app.page.keyboard.type("2")
    await expect(app.page.get_by_label("Owner")).to_have_value("nobody2")
    await app.page.get_by_label("Owner").fill("nobody")
    await app.page.go_back()
    await app.page.go_back()
    await expect(rows).to_have_attribute("data-id", asked)


async def test_a_deleted_task_is_gone(app: App, http: httpx.AsyncClient) -> None:
    """V2: after a confirmation. The list is shown then, and the address of the task shows that the task is not here."""
    task = (await send(http, "echo drop this"))["task"]
    await app.page.goto(f"{app.url}/ui/ops/tasks/{task['id']}")
    await app.button("Delete task").click()
    await app.button("Delete it").click()
    await expect(app.page.get_by_text("The task was deleted")).to_be_visible()
    await expect(app.page).to_have_url(f"{app.url}/ui/ops?view=tasks")
    assert (await http.get(f"/api/tasks/{task['id']}")).status_code == 404
    app.seen.allow("status of 404")
    await app.page.go_back()
    await expect(app.page.get_by_text("This task is not here")).to_be_visible()


async def test_a_long_log_can_be_read_completely(app: App, http: httpx.AsyncClient) -> None:
    """V1: the end of the log is shown first, earlier events on request, each event once."""
    task = (await send(http, "flood 700"))["task"]["id"]
    await app.page.goto(f"{app.url}/ui/ops/tasks/{task}")
    await expect(_log(app).last).to_contain_text("completed")
    assert await _count(app) == 500
    last = await _log(app).last.get_attribute("data-number")
    await app.button("Show earlier events").click()
    await until(lambda: _count(app), lambda count: count == int(last or 0))
    await app.button("Show earlier events").wait_for(state="detached")
    await app.page.get_by_label("Filter", exact=True).fill('"created"')
    await expect(_log(app)).to_have_count(1)
    await expect(_log(app)).to_contain_text("created")
    await _log(app).get_by_role("button").click()
    await app.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    await app.button("Copy as curl").click()
    command = shlex.split(await app.page.evaluate("navigator.clipboard.readText()"))
    (address,) = [word for word in command if word.startswith("http")]
    (event,) = (await http.get(address)).json()["data"]["events"]
    assert (event["generation"], event["kind"]) == (1, "created")


async def test_a_log_is_read_again_after_a_failure(app: App, http: httpx.AsyncClient) -> None:
    """V1: also the log of an ended task, which does not change any more."""
    task = (await send(http, "echo hello"))["task"]["id"]
    app.seen.allow("status of 503")
    await app.page.route(
        "**/events?**", lambda route: route.fulfill(status=503, json={"error": "busy", "code": "BUSY"})
    )
    await app.page.goto(f"{app.url}/ui/ops/tasks/{task}")
    await expect(app.page.locator(".ops-log [data-code=BUSY]")).to_be_visible()
    await app.page.unroute_all(behavior="wait")
    await expect(_log(app).last).to_contain_text("completed")
    await expect(app.page.locator(".ops-log [data-code=BUSY]")).to_have_count(0)


async def test_a_visible_view_is_refreshed(app: App, http: httpx.AsyncClient, user: str) -> None:
    """V1: every few seconds; not in a hidden tab. The shown data stays while the server cannot be reached."""
    await app.page.clock.install()
    await app.page.goto(f"{app.url}/ui/ops?view=tasks&owner={user}")
    rows = _table(app, "Tasks").locator("tbody tr")
    await expect(app.page.get_by_text("No task matches these filters.")).to_be_visible()
    await send(http, "echo one")
    await app.page.clock.run_for(WAIT)
    await expect(rows).to_have_count(1)
    await _hide(app, hidden=True)
    before = len(app.seen.sent("/api/ops/tasks"))
    for _ in range(3):
        await app.page.clock.run_for(WAIT)
        # A request that had been sent by now would have its answer before this one.
        await app.page.evaluate("fetch('/api/ui-config').then((one) => one.text())")
    assert len(app.seen.sent("/api/ops/tasks")) == before
    await send(http, "echo two")
    await _hide(app, hidden=False)
    await expect(rows).to_have_count(2)
    app.seen.allow("ERR_INTERNET_DISCONNECTED")
    await app.page.context.set_offline(True)
    await app.page.clock.run_for(WAIT)
    await expect(app.alerts).to_contain_text("What is shown is of")
    await expect(rows).to_have_count(2)
    await app.page.context.set_offline(False)
    await app.page.clock.run_for(WAIT)
    await expect(app.alerts).to_have_count(0)


async def test_a_lost_executor_is_shown_with_the_failure_of_its_task(
    browser: "Browser", cluster: Cluster, tmp_path: Path
) -> None:
    """V1, C9: on four processes; the executor is killed during a run, and the page is not reloaded."""
    async with running("four", tmp_path, {}, server=cluster) as plane, client(plane.url) as http:
        context = await browser.new_context()
        seen = Seen()
        seen.watch(context)
        app = App(await context.new_page(), plane.url, seen)
        message = {"message": text_message("slow 400"), "configuration": {"returnImmediately": True}}
        task = (await result(http, "SendMessage", message))["task"]["id"]
        await app.page.goto(f"{app.url}/ui/ops")
        executor = _table(app, "Executors").locator("tbody tr")
        await expect(executor.get_by_role("cell").nth(2)).to_have_text("1")
        await plane.kill("executor")
        await expect(executor).to_contain_text("Gone")
        await app.page.get_by_role("link", name="demo, Failed: 1").click()
        await expect(_table(app, "Tasks").locator(f"tr[data-id='{task}']")).to_contain_text("was lost")
        await context.close()
    assert seen.unexpected() == []


async def test_concerns_come_first_and_lead_to_their_tasks(browser: "Browser", tmp_path: Path) -> None:
    """V4: in the words of the server, for an executor that was killed while another task waits; the store does not
    sweep. A refresh keeps the focus."""
    settings = {"TASKPLANE_EXECUTOR_CAPACITY": "1", "TASKPLANE_TASKS_SWEEP_EVERY": "600"}
    async with running("four", tmp_path, settings) as plane, client(plane.url) as http:
        context = await browser.new_context()
        seen = Seen()
        seen.watch(context)
        app = App(await context.new_page(), plane.url, seen)
        await app.page.goto(f"{app.url}/ui/ops")
        await expect(app.page.get_by_text("Nothing needs attention")).to_be_visible()
        tasks: list[str] = []
        for text in ("slow 400", "slow 400"):
            message = {"message": text_message(text), "configuration": {"returnImmediately": True}}
            tasks.append((await result(http, "SendMessage", message))["task"]["id"])
        await plane.kill("executor")
        concerns = app.page.locator("[data-warning]")
        await expect(concerns).to_have_count(2)
        waits, silent = concerns.first, concerns.last
        await expect(waits).to_have_attribute("data-warning", "NO_EXECUTOR")
        await expect(waits).to_contain_text("1 task has been waiting for an executor for ")
        await expect(waits).to_contain_text("taskplane serve executor")
        await expect(waits.get_by_role("link")).to_have_count(0)
        await expect(silent).to_have_attribute("data-warning", "SILENT")
        await expect(silent).to_contain_text("ago and holds 1 task.")
        link = silent.get_by_role("link", name="Show its task")
        await link.focus()
        before = await silent.inner_text()
        await expect(silent).not_to_have_text(before, timeout=2 * WAIT)
        await expect(link).to_be_focused()
        await link.press("Enter")
        rows = _table(app, "Tasks").locator("tbody tr")
        await expect(rows).to_have_count(1)
        await expect(rows).to_have_attribute("data-id", tasks[0])
        await context.close()
    assert seen.unexpected() == []


async def test_a_user_without_the_operate_scope_is_shown_the_missing_scope(browser: "Browser", tmp_path: Path) -> None:
    """V3: and the page sends no call for operators. A user with the scope sees the view."""
    keys = with_keys(tmp_path, ann=("read", "write"), bob=("read", "operate"))
    async with running("one", tmp_path, {**STEADY, **keys}) as plane:
        for name in ("ann", "bob"):
            async with as_user(browser, plane.url, name, "/ui/ops") as app:
                if name == "ann":
                    await expect(app.page.get_by_text("This part is for operators")).to_be_visible()
                    await expect(app.page.get_by_text('"operate"')).to_be_visible()
                    assert app.seen.sent("/api/ops") == []
                    await expect(app.page.get_by_role("link", name="Operations")).to_have_count(0)
                else:
                    await expect(app.page.get_by_text("Nothing needs attention")).to_be_visible()
            assert app.seen.unexpected() == []


async def test_a_user_with_only_the_operate_scope_is_redirected_to_operations(
    browser: "Browser", tmp_path: Path
) -> None:
    """V3: from every address, without an entry in the history. The page offers and requests nothing else."""
    keys = with_keys(tmp_path, olga=("operate",), ann=("write",))
    async with running("one", tmp_path, {**STEADY, **keys}) as plane, client(plane.url, **as_owner("ann")) as http:
        task = (await send(http, "echo hello"))["task"]
        context = await browser.new_context()
        seen = Seen()
        seen.watch(context)
        app = App(await context.new_page(), plane.url, seen)
        await app.page.goto(f"{app.url}/ui/")
        before = await app.page.evaluate("history.length")
        await sign_in(app, "olga")
        await expect(app.page).to_have_url(f"{app.url}/ui/ops")
        await expect(app.page.get_by_text("Nothing needs attention")).to_be_visible()
        for role, name in (("button", "New chat"), ("searchbox", "Search sessions"), ("navigation", "Sessions")):
            await expect(app.page.get_by_role(role, name=name)).to_have_count(0)  # type: ignore[arg-type]
        await app.page.keyboard.press("n")
        await app.page.keyboard.press("?")
        shortcuts = app.page.get_by_role("dialog", name="Keyboard shortcuts")
        await expect(shortcuts).to_contain_text("Operations")
        await expect(shortcuts).not_to_contain_text("New chat")
        await app.page.keyboard.press("Escape")
        assert await app.page.evaluate("history.length") == before
        for path in (f"/ui/sessions/{task['contextId']}?task={task['id']}", "/ui/agents/demo", "/ui/none"):
            app.seen.allow("status of 404")
            await app.page.goto(f"{app.url}{path}")
            await expect(app.page).to_have_url(f"{app.url}/ui/ops")
        assert seen.sent("/api/sessions") == []
        await context.close()
        assert seen.unexpected() == []


async def test_the_view_is_reachable_by_keyboard(app: App) -> None:
    """V1, B31: `g` and `o` open the view from the chat; tables have names and heads, and scroll by keyboard."""
    await app.open()
    await app.run("echo hello")
    await app.log.focus()
    await app.page.keyboard.press("g")
    await app.page.keyboard.press("o")
    await expect(app.page.get_by_role("heading", name="Operations")).to_be_visible()
    await expect(_table(app, "Executors")).to_be_visible()
    for name, heads in (("Tasks by agent and state", 8), ("Executors", 5)):
        region = app.page.get_by_role("region", name=name)
        await region.focus()
        await expect(region).to_be_focused()
        await expect(_table(app, name).get_by_role("columnheader")).to_have_count(heads)
    await app.page.get_by_role("navigation", name="Operations").get_by_role("link", name="Failures").press("Enter")
    await expect(app.page.get_by_label("Owner")).to_be_visible()


def _table(app: App, name: str) -> Locator:
    return app.page.get_by_role("table", name=name, exact=True)


def _log(app: App) -> Locator:
    return app.page.locator(".ops-log").get_by_role("listitem")


async def _count(app: App) -> int:
    """The number of events of the log in the view."""
    return int(await app.page.locator(".counts").get_attribute("data-total") or 0)


async def _hide(app: App, *, hidden: bool) -> None:
    await app.page.evaluate(
        """hidden => {
            Object.defineProperty(document, "hidden", { configurable: true, get: () => hidden });
            document.dispatchEvent(new Event("visibilitychange"));
        }""",
        hidden,
    )
