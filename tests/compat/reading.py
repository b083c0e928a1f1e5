"""The contents of a session of an agent runtime, as the plane answers them, in the form of the model's record."""

import json

import httpx
from tests.system.wire import Json, data


class Effective:
    """The answer of `effective_history`: `events` as stored, and `said`, their contents, in order."""

    def __init__(self, answer: Json) -> None:
        self.version: int = answer["version"]
        self.messages: list[Json] = answer["messages"]
        self.texts: list[str] = [each["data"] for each in answer.get("events", [])]
        self.events: list[Json] = [json.loads(text) for text in self.texts]
        self.said = [[each["content"]["role"], shown(each["content"])] for each in self.events if each.get("content")]


async def effective(http: httpx.AsyncClient, session: str) -> Effective:
    """The effective history of a session."""
    return Effective(await data(http, f"/api/sessions/{session}/effective_history"))


async def state(http: httpx.AsyncClient, session: str, app_key: str = "") -> Json:
    """The state of a session; of the application's state, which all tests share, only the value of `app_key`."""
    found: Json = (await data(http, f"/api/sessions/{session}/state"))["state"]
    return {key: value for key, value in found.items() if not key.startswith("app:") or key == app_key}


async def log(http: httpx.AsyncClient, session: str) -> list[str]:
    """Every event that was ever stored in a session, oldest first, as it was stored."""
    return [each["data"] for each in (await data(http, f"/api/sessions/{session}?order=asc"))["events"]]


def shown(content: Json) -> str:
    """The parts of a content in a line, as `runtime.model.shown` writes them."""
    pieces: list[str] = []
    for part in content["parts"]:
        if part.get("function_call"):
            arguments = ", ".join(f"{key}={value}" for key, value in part["function_call"]["args"].items())
            pieces.append(f"{part['function_call']['name']}({arguments})")
        elif part.get("function_response"):
            pieces.append(f"{part['function_response']['name']}: {part['function_response']['response']}")
        else:
            pieces.append(part.get("text") or "")
    return " ".join(pieces)
