"""The service grpc.reflection, with services whose names a library in this process may have as well."""

from contextlib import suppress
from typing import Any, Final

import grpc
from google.protobuf import descriptor_pool
from google.protobuf.descriptor import FileDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection, reflection_pb2_grpc

from taskplane.runtime.services import Services

_HEALTH: Final = health_pb2.DESCRIPTOR.services_by_name["Health"].full_name


def register(services: Services, server: grpc.aio.Server) -> None:
    """Add reflection to a server before it starts.

    A process has one pool of descriptors, in which a name is unique. Public services are described in a pool of their
    own, which has no other users.
    """
    names = [*services.names, _HEALTH, reflection.SERVICE_NAME]
    servicer = reflection.aio.ReflectionServicer(names, pool=_pool(services) if services.public else None)
    generated: Any = reflection_pb2_grpc
    generated.add_ServerReflectionServicer_to_server(servicer, server)


def _pool(services: Services) -> DescriptorPool:
    default, pool = descriptor_pool.Default(), DescriptorPool()
    known: set[str] = set()
    for name in (*services.internal, _HEALTH, reflection.SERVICE_NAME):
        # A service need not have a description.
        with suppress(KeyError):
            _copy(default.FindFileContainingSymbol(name), pool, known)
    for file in services.public.values():
        for needed in file.dependency:
            _copy(default.FindFileByName(needed), pool, known)
        pool.AddSerializedFile(file.SerializeToString())
    return pool


def _copy(file: FileDescriptor, pool: DescriptorPool, known: set[str]) -> None:
    """Add a file to a pool after the files that it imports."""
    if file.name in known:
        return
    known.add(file.name)
    for needed in file.dependencies:
        _copy(needed, pool, known)
    copied = FileDescriptorProto()
    file.CopyToProto(copied)
    pool.AddSerializedFile(copied.SerializeToString())
