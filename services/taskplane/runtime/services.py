"""The services of a process. Each method is wrapped once, with authentication, logs, metrics and errors."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeVar, cast

import grpc
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.rpc import status_pb2  # type: ignore[import-untyped]

from taskplane.runtime.errors import PlaneError
from taskplane.runtime.identity import PrincipalSigner
from taskplane.runtime.interceptors import Method, wrap
from taskplane.runtime.pacing import Pacer
from taskplane.runtime.policy import Access
from taskplane.runtime.principal import Principal

MAX_REQUEST: Final = 4 * 1024 * 1024
"""The largest request in bytes."""
MAX_REPLY: Final = 64 * 1024 * 1024
"""The largest reply in bytes that our channels accept."""

S = TypeVar("S")


class Services:
    """A registry of services. `serving` puts them on a socket, `InProcessChannel` calls them directly."""

    def __init__(self, *, policy: Mapping[str, Access], secret: bytes = b"", default: Principal | None = None) -> None:
        """`policy` has a line per method path ("/package.Service/Method"). A method without a line is refused as
        PERMISSION_DENIED.

        With `secret`, a principal must be signed, and `default` is unused. Without `secret`, calls without a principal
        act as `default`. Calls with neither get UNAUTHENTICATED, except for public methods.
        """
        self.secret = secret
        self.handlers: dict[str, grpc.RpcMethodHandler[Any, Any]] = {}
        """Every method by its path, wrapped."""
        self.names: list[str] = []
        """The full names of the services."""
        self.public: dict[str, FileDescriptorProto] = {}
        """Those of them that authenticate their callers themselves, each with the file that describes it."""
        self.pacer = Pacer()
        """Slows long reads of this process while unary calls are in flight."""
        self._policy = dict(policy)
        self._signer = PrincipalSigner(secret)
        self._default = default

    def add(self, register: Callable[[S, grpc.aio.Server], None], servicer: S) -> None:
        """Register a servicer by the generated `add_XServicer_to_server`. ValueError: it is registered already.

        The generated function uses only two methods of a server, both below.
        """
        register(servicer, cast("grpc.aio.Server", self))

    def add_generic_rpc_handlers(self, generic_rpc_handlers: Iterable[grpc.GenericRpcHandler]) -> None:
        """Do nothing. `add_registered_method_handlers` gets the same handlers, with their names."""

    def add_registered_method_handlers(
        self, service_name: str, method_handlers: "Mapping[str, grpc.RpcMethodHandler[Any, Any]]"
    ) -> None:
        """Take the methods of a service. ValueError: it is registered already. TypeError: a method streams requests."""
        if service_name in self.names:
            raise ValueError(f"{service_name} is registered already")
        self.names.append(service_name)
        for name, handler in method_handlers.items():
            path = f"/{service_name}/{name}"
            method = Method(
                path=path,
                streaming=bool(handler.response_streaming),
                access=self._policy.get(path),
                signer=self._signer,
                default=None if self.secret else self._default,
                pacer=self.pacer,
            )
            self.handlers[path] = wrap(handler, method)

    def add_public(
        self,
        file: FileDescriptorProto,
        handlers: "Mapping[str, grpc.RpcMethodHandler[Any, Any]]",
        to_status: Callable[[PlaneError], status_pb2.Status],
    ) -> None:
        """Register the service of `file` with handlers that authenticate their callers themselves; no principal of a
        call and no secret reaches them. A handler may take its request as a stream, to read it when its caller is
        known. `file` is only read by reflection, so that its names may be those of a package which a library of this
        process has as well. `to_status` returns the status of an error."""
        (service,) = file.service
        name = f"{file.package}.{service.name}"
        self.names.append(name)
        self.public[name] = file
        for method, handler in handlers.items():
            path = f"/{name}/{method}"
            streaming = bool(handler.response_streaming)
            self.handlers[path] = wrap(
                handler, Method(path, streaming, Access.PUBLIC, None, None, self.pacer, to_status)
            )

    @property
    def internal(self) -> list[str]:
        """Return the names of the services that are for processes of the plane."""
        return [name for name in self.names if name not in self.public]

    def register(self, server: grpc.aio.Server) -> None:
        """Add every service to a server that has not started yet."""
        for service in self.names:
            prefix = f"/{service}/"
            methods = {path[len(prefix) :]: h for path, h in self.handlers.items() if path.startswith(prefix)}
            server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, methods),))
