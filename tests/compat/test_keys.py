"""kagent's clients with a plane that requires a key: the key is the token in their file."""

import hashlib
from pathlib import Path

import pytest
from tests.compat.process import Refused, running
from tests.compat.test_session_service import event, texts
from tests.compat.test_task_store import document, saved
from tests.support.additions import without_additions
from tests.system.plane import running as plane_running

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_the_key_decides_the_user_against_the_names_of_the_clients(tmp_path: Path) -> None:
    """S2: `user_id` and X-User-Id are ignored, and all calls of the clients still work."""
    keys = tmp_path / "keys.toml"
    digest = hashlib.sha256(b"secret").hexdigest()
    keys.write_text(f'[[keys]]\nid = "runtime"\nsha256 = "{digest}"\nowner = "team"\n')
    settings = {"TASKPLANE_GATEWAY_API_KEYS": str(keys)}
    async with (
        plane_running("one", tmp_path, settings) as plane,
        running(plane.url, plane.data / "runtime.log") as runtime,
    ):
        with pytest.raises(Refused) as refused:
            await runtime.call("list_sessions", user="ann")
        assert refused.value.status == 401
        await runtime.call("use_token", token="runtime.secret")
        session = await runtime.call("create_session", user="ann")
        assert session["user_id"] == "team"
        await runtime.call("append_event", user="ann", session_id=session["id"], event=event("hi"))
        assert texts(await runtime.call("get_session", user="bob", session_id=session["id"])) == ["hi"]
        task = document()
        await runtime.call("save_task", task=task, user="ann")
        assert await saved(runtime, task, "bob") == without_additions(task)
