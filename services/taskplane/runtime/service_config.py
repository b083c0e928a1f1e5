"""The gRPC service config of a channel: how calls are spread over replicas, and which of them are repeated."""

import json
from typing import Any, Final

from google.protobuf.descriptor import FileDescriptor, MethodDescriptor
from google.protobuf.descriptor_pb2 import MethodOptions

# Seconds; a repeated call has the deadline of the whole call, so the tries are few and soon.
_RETRY: Final[dict[str, Any]] = {
    "maxAttempts": 4,
    "initialBackoff": "0.1s",
    "maxBackoff": "1s",
    "backoffMultiplier": 2,
    "retryableStatusCodes": ["UNAVAILABLE"],
}
# Nothing is repeated where most calls fail: each failure takes a token, each success gives a tenth back.
_THROTTLING: Final = {"maxTokens": 100, "tokenRatio": 0.1}


def service_config(*files: FileDescriptor) -> str:
    """Return the config for a channel to the services of these .proto files, as JSON.

    Calls are spread over all addresses of the target (`round_robin`). With services, addresses that are not SERVING
    get no calls, and calls of methods that may be repeated are, when they fail as UNAVAILABLE before any reply came.
    """
    services = [service for file in files for service in file.services_by_name.values()]
    config: dict[str, Any] = {"loadBalancingConfig": [{"round_robin": {}}]}
    if services:
        config["healthCheckConfig"] = {"serviceName": services[0].full_name}
        names = [
            {"service": service.full_name, "method": method.name}
            for service in services
            for method in service.methods
            if repeatable(method)
        ]
        config["methodConfig"] = [{"name": names, "retryPolicy": _RETRY}]
        config["retryThrottling"] = _THROTTLING
    return json.dumps(config)


def repeatable(method: MethodDescriptor) -> bool:
    """Return whether a channel may repeat calls of a method, by the `idempotency_level` in its .proto file."""
    level: int = method.GetOptions().idempotency_level
    return level in (MethodOptions.NO_SIDE_EFFECTS, MethodOptions.IDEMPOTENT)
