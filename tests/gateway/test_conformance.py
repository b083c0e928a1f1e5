"""The table of operations in docs/conformance.md: each operation is answered over each binding as it says."""

from collections.abc import AsyncGenerator
from typing import Final

import pytest
import pytest_asyncio
from tests.gateway.bindings import STREAMS, Client
from tests.gateway.failures import Failure
from tests.gateway.plane import Json, Plane, fresh, open_all, said
from tests.repo.conformance import calls

from taskplane.agents.agent import AgentCard
from taskplane.agents.demo import Demo
from taskplane.gateway.a2a.operations import OPERATIONS
from taskplane.runtime.principal import Principal

pytestmark = pytest.mark.asyncio(loop_scope="module")

_WEBHOOK: Final[Json] = {"taskId": "none", "id": "none", "url": "https://example.com"}


class Extended(Demo):
    """The demo, with an extended card."""

    def extended_card(self, caller: Principal) -> AgentCard:
        return AgentCard(name="extended", version="1")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def plane(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Plane, None]:
    async with open_all(tmp_path_factory.mktemp("plane"), ("demo", Extended())) as plane:
        yield plane


@pytest.mark.parametrize("operation", OPERATIONS)
async def test_each_operation_is_answered_over_each_binding_as_the_page_says(client: Client, operation: str) -> None:
    """a2a A7, J6, J8: a binding without the operation has no entry."""
    told = calls().get(operation, {}).get(client.binding.name, "")
    assert bool(told) == (operation in client.binding.operations)
    if not told:
        return
    params = await params_of(client, operation)
    if operation in STREAMS and told == "answered":
        async with client.stream(operation, params) as events:
            assert "task" in (await anext(events)).result
    else:
        found = await client.answer(operation, params)
        assert told == ("refused" if isinstance(found, Failure) else "answered"), found


async def params_of(client: Client, operation: str) -> Json:
    """Return a request that succeeds if the operation does."""
    if operation.startswith("Send"):
        return {"message": said("ask", contextId=fresh())}
    if operation in ("GetTask", "CancelTask", "SubscribeToTask"):
        return {"id": (await client.send("ask"))["id"]}
    return dict(_WEBHOOK) if "Push" in operation else {}
