"""The official Python client of A2A, unmodified, made of the card of an agent."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import grpc
import httpx
from a2a.client import Client, ClientConfig, ClientFactory
from a2a.client.card_resolver import A2ACardResolver
from a2a.types import AgentCard


@asynccontextmanager
async def official_python(
    url: str,
    binding: str,
    version: str = "1.0",
    *,
    streaming: bool = True,
    port: int = 0,
    patience: float = 20.0,
) -> AsyncGenerator[tuple[Client, AgentCard]]:
    """Open a client over a binding of a version, of the agent whose card is below `url`, with the card that it uses.

    `port`: where its calls go, if not to the address in the card. `patience`: seconds of silence over HTTP.
    """
    async with httpx.AsyncClient(timeout=patience, verify=False) as http:
        # Without a version it has the interfaces of both.
        card = await A2ACardResolver(http, url).get_agent_card()
        offered = [
            one
            for one in card.supported_interfaces
            if one.protocol_version.startswith(version) and one.protocol_binding == binding
        ]
        del card.supported_interfaces[:]
        card.supported_interfaces.extend(offered[:1])
        if port:
            address = f"127.0.0.1:{port}"
            card.supported_interfaces[0].url = address if binding == "GRPC" else f"http://{address}"
        config = ClientConfig(
            streaming=streaming,
            httpx_client=http,
            # 0.3 has a scheme in the address.
            grpc_channel_factory=lambda address: grpc.aio.insecure_channel(address.rpartition("/")[2]),
            supported_protocol_bindings=[binding],
        )
        client = ClientFactory(config).create(card)
        try:
            yield client, card
        finally:
            await client.close()
