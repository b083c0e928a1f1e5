"""What a process serves: its services, each method with its concerns around it, on whatever channel they are called."""

from collections.abc import Iterable, Mapping
from typing import Any, Final, NoReturn

import grpc

from taskplane.runtime.identity import Seal
from taskplane.runtime.interceptors import Method, wrap
from taskplane.runtime.policy import Access
from taskplane.runtime.principal import Principal

MAX_REQUEST: Final = 4 * 1024 * 1024
"""Bytes of a request at most."""
MAX_REPLY: Final = 64 * 1024 * 1024
"""Bytes of a reply at most, as our own channels take them."""


class Services(grpc.aio.Server):
    """The services of a process, each method with its concerns around it, for sockets and local channels alike.

    It goes where the generated `add_XServicer_to_server` wants a server. It listens nowhere: `serving` does.
    """

    def __init__(self, *, policy: Mapping[str, Access], secret: bytes = b"", default: Principal | None = None) -> None:
        """`policy` has a line per method path ("/package.Service/Method"); a method without one is refused.

        With `secret`, a principal counts only if it is signed with it, and `default` counts for nothing. Without, calls
        that name no principal are made by `default`, or refused as UNAUTHENTICATED.
        """
        self.secret = secret
        self.handlers: dict[str, grpc.RpcMethodHandler[Any, Any]] = {}
        """Every method by its path, wrapped."""
        self.names: list[str] = []
        """The full names of the services."""
        self._policy = dict(policy)
        self._seal = Seal(secret)
        self._default = default

    def add_generic_rpc_handlers(self, generic_rpc_handlers: Iterable[grpc.GenericRpcHandler]) -> None:
        """Does nothing: generated code registers a service twice; `add_registered_method_handlers` has the names."""

    def add_registered_method_handlers(
        self, service_name: str, method_handlers: "Mapping[str, grpc.RpcMethodHandler[Any, Any]]"
    ) -> None:
        """Takes a service. ValueError: it is there already."""
        if service_name in self.names:
            raise ValueError(f"{service_name} is registered already")
        self.names.append(service_name)
        for name, handler in method_handlers.items():
            path = f"/{service_name}/{name}"
            method = Method(
                path=path,
                streaming=bool(handler.response_streaming),
                access=self._policy.get(path),
                seal=self._seal,
                signed=bool(self.secret),
                default=self._default,
            )
            self.handlers[path] = wrap(handler, method)

    def register(self, server: grpc.aio.Server) -> None:
        """Adds every service to a server that listens."""
        for service in self.names:
            prefix = f"/{service}/"
            methods = {path[len(prefix) :]: h for path, h in self.handlers.items() if path.startswith(prefix)}
            server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, methods),))

    def add_insecure_port(self, address: str) -> NoReturn:
        """Refused: `serving` listens."""
        raise TypeError("Services listens nowhere; use taskplane.runtime.server.serving")

    def add_secure_port(self, address: str, server_credentials: grpc.ServerCredentials) -> NoReturn:
        """Refused: `serving` listens."""
        raise TypeError("Services listens nowhere; use taskplane.runtime.server.serving")

    async def start(self) -> NoReturn:
        """Refused: `serving` starts and stops."""
        raise TypeError("Services cannot be started; use taskplane.runtime.server.serving")

    async def stop(self, grace: float | None) -> NoReturn:
        """Refused: `serving` starts and stops."""
        raise TypeError("Services cannot be stopped; use taskplane.runtime.server.serving")

    async def wait_for_termination(self, timeout: float | None = None) -> NoReturn:
        """Refused: `serving` starts and stops."""
        raise TypeError("Services never runs; use taskplane.runtime.server.serving")
