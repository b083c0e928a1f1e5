"""Descriptions of the A2A services under their official names, for reflection.

The project compiles the messages of A2A under a package name of its own, since a process can load a package only once,
and agents bring the official library along. What travels does not contain the name; reflection shows the official one.
"""

from collections.abc import Mapping
from typing import Final

from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.message import Message

SERVICE: Final = "A2AService"


def described(package: str, methods: Mapping[str, tuple[type[Message], type[Message], bool]]) -> FileDescriptorProto:
    """Return a file with the service `A2AService` and its messages in an official package.

    `methods` has the messages of requests and results of each method, and whether it streams.
    """
    source = next(iter(methods.values()))[0].DESCRIPTOR.file
    file = FileDescriptorProto()
    source.CopyToProto(file)
    file.name = f"{package.replace('.', '/')}/a2a.proto"
    _rename(file, source.package, package)
    service = file.service.add(name=SERVICE)
    for name, (request, result, streams) in methods.items():
        service.method.add(
            name=name,
            input_type=_official(request, source.package, package),
            output_type=_official(result, source.package, package),
            server_streaming=streams,
        )
        for used in (request.DESCRIPTOR.file.name, result.DESCRIPTOR.file.name):
            if used != source.name and used not in file.dependency:
                file.dependency.append(used)
    return file


def _rename(file: FileDescriptorProto, old: str, new: str) -> None:
    file.package = new
    pending = list(file.message_type)
    while pending:
        message = pending.pop()
        pending += message.nested_type
        for field in message.field:
            if field.type_name.startswith(f".{old}."):
                field.type_name = f".{new}{field.type_name[len(old) + 1 :]}"


def _official(message: type[Message], old: str, new: str) -> str:
    name = message.DESCRIPTOR.full_name
    return f".{new}{name[len(old) :]}" if name.startswith(f"{old}.") else f".{name}"
