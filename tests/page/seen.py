"""Events in a browser beside the shown page: its requests, and errors."""

import json
import re
from dataclasses import dataclass, field
from typing import Any

from playwright.async_api import BrowserContext, ConsoleMessage, Dialog, Page, Request
from tests.system.wire import Json


@dataclass(frozen=True)
class Call:
    """One JSON-RPC request."""

    method: str
    params: Json
    headers: dict[str, str]

    @property
    def message(self) -> Json:
        return dict(self.params["message"])


@dataclass
class Seen:
    """Requests of all pages of one context, oldest first, and the errors in them."""

    requests: list[Request] = field(default_factory=list[Request])
    wrong: list[str] = field(default_factory=list[str])
    _allowed: list[str] = field(default_factory=list[str])

    def watch(self, context: BrowserContext) -> None:
        """Begins to observe the context and all its pages, also later ones."""
        context.on("request", self._requested)
        context.on("page", self._watch_page)

    def allow(self, pattern: str) -> None:
        """Allows an error that the test causes: a regular expression for the whole report."""
        self._allowed.append(pattern)

    def unexpected(self) -> list[str]:
        """The errors that the test did not allow."""
        return [one for one in self.wrong if not any(re.search(pattern, one) for pattern in self._allowed)]

    def calls(self, method: str = "") -> list[Call]:
        """The JSON-RPC requests so far, or those of one method."""
        found = [call for request in self.requests if (call := _call_of(request)) is not None]
        return [call for call in found if method in ("", call.method)]

    def messages(self) -> list[Json]:
        """The sent messages, each once, in the form of its last request."""
        return list({call.message["messageId"]: call.message for call in self.calls("SendMessage")}.values())

    def sent(self, part: str, verb: str = "") -> list[Request]:
        """The requests until now with `part` in path and query."""
        return [one for one in self.requests if part in one.url and verb in ("", one.method)]

    def _requested(self, request: Request) -> None:
        self.requests.append(request)

    def _watch_page(self, page: Page) -> None:
        page.on("console", self._console)
        page.on("pageerror", lambda error: self.wrong.append(f"exception: {error}"))
        page.on("crash", lambda _: self.wrong.append("the page crashed"))
        page.on("dialog", self._dialog)

    async def _dialog(self, dialog: Dialog) -> None:
        self.wrong.append(f"dialog: {dialog.message}")
        await dialog.dismiss()

    def _console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.wrong.append(f"{message.type}: {message.text} ({message.location.get('url', '')})")


def _call_of(request: Request) -> Call | None:
    body = request.post_data if request.method == "POST" else None
    if not body or not body.startswith("{"):
        return None
    read: Any = json.loads(body)
    if "method" not in read:
        return None
    return Call(read["method"], read.get("params", {}), request.headers)
