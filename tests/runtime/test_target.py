"""Addresses of services become gRPC targets, or are refused with what to write instead."""

import pytest

from taskplane.runtime.errors import Invalid
from taskplane.runtime.target import target


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("tasks:50051", "dns:///tasks:50051"),
        ("localhost:50051", "dns:///localhost:50051"),
        ("127.0.0.1:50051", "ipv4:127.0.0.1:50051"),
        ("[::1]:50051", "ipv6:[::1]:50051"),
        ("10.0.0.1:1,10.0.0.2:2", "ipv4:10.0.0.1:1,10.0.0.2:2"),
        ("10.0.0.1:1, 10.0.0.2:2", "ipv4:10.0.0.1:1,10.0.0.2:2"),
        ("[::1]:1,[fe80::2]:2", "ipv6:[::1]:1,[fe80::2]:2"),
        ("ipv4:10.0.0.1:1,10.0.0.2:2", "ipv4:10.0.0.1:1,10.0.0.2:2"),
        ("ipv6:[::1]:1", "ipv6:[::1]:1"),
        ("dns:///tasks.plane.svc:50051", "dns:///tasks.plane.svc:50051"),
        ("dns://10.0.0.53/tasks:50051", "dns://10.0.0.53/tasks:50051"),
        ("unix:/run/tasks.sock", "unix:/run/tasks.sock"),
        ("unix:tasks.sock", "unix:tasks.sock"),
        ("xds:///tasks", "xds:///tasks"),
    ],
)
def test_an_address_becomes_one_target(address: str, expected: str) -> None:
    assert target(address) == expected


@pytest.mark.parametrize(
    "address",
    [
        "",
        "tasks",
        "tasks:",
        "tasks:grpc",
        "tasks:0",
        "tasks:65536",
        ":50051",
        "127.0.0.1",
        "::1:50051",
        "[tasks]:50051",
        "http://tasks:50051",
        "10.0.0.1:1,",
        "10.0.0.1:1,10.0.0.2",
        "ipv4:[::1]:1",
        "ipv4:tasks:1",
        "ipv6:10.0.0.1:1",
        "ipv4:",
    ],
)
def test_an_address_that_is_none_is_refused(address: str) -> None:
    with pytest.raises(Invalid, match="is not a service address") as refused:
        target(address)
    assert refused.value.reason == "BAD_TARGET"
    assert refused.value.suggestion


@pytest.mark.parametrize("address", ["tasks-1:1,tasks-2:1", "10.0.0.1:1,tasks:1", "10.0.0.1:1,[::1]:1"])
def test_a_list_is_of_addresses_of_one_version_of_ip(address: str) -> None:
    with pytest.raises(Invalid, match="and no names") as refused:
        target(address)
    assert "dns:///name:port" in refused.value.suggestion
