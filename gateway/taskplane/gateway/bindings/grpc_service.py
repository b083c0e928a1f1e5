"""A service of A2A over gRPC in one version: a table of methods and a codec."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.message import Message

from taskplane.gateway.a2a.operations import Operation, Stream
from taskplane.gateway.bindings.grpc_files import described
from taskplane.gateway.settings import ErrorMap
from taskplane.gateway.translate.dialect import Read, Result, Writer
from taskplane.runtime.errors import PlaneError


@dataclass(frozen=True, slots=True)
class Method:
    """A method of a service: its operation, and the messages of its requests and results."""

    operation: Operation
    request: type[Message]
    result: type[Message]


@dataclass(frozen=True, slots=True)
class A2AService:
    """A service of one version of A2A. `package` is its official one; `versions` are those that a client may name.

    `read` returns the request of an operation for a message of its method; `as_sent` returns the wrong fields of that
    request as its message has them, with the rules that they break; `result` and `event` return the message of an
    answer and of an element of a stream; `status` returns that of an error, for the id of its request and the setting
    `error_map`.
    """

    package: str
    version: str
    versions: Sequence[str]
    methods: Mapping[str, Method]
    read: Callable[[Operation, Any], Read]
    as_sent: Callable[[Message, Mapping[str, str]], Mapping[str, str]]
    result: Callable[[Operation, Result], Message]
    event: Writer[Message]
    status: Callable[[PlaneError, str, ErrorMap], Any]

    @property
    def file(self) -> FileDescriptorProto:
        """Return the description of the service under its official name."""
        return described(
            self.package,
            {
                name: (method.request, method.result, isinstance(method.operation, Stream))
                for name, method in self.methods.items()
            },
        )
