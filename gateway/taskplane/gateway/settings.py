"""Settings of the gateway process and their defaults. Times are in seconds unless the name says otherwise."""

from dataclasses import dataclass, field
from typing import Annotated, Final, Literal, get_args

from taskplane.runtime.bounds import Duration, Interval, Limit, LogLevel, Port, Range, Size
from taskplane.runtime.settings import Settings

PREFIX: Final = "TASKPLANE_GATEWAY_"
ErrorMap = Literal["1.0.1", "1.0.0"]
"""The version of A2A 1.0 with the HTTP statuses and gRPC codes of errors."""
ERROR_MAPS: Final[tuple[ErrorMap, ...]] = get_args(ErrorMap)


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewaySettings(Settings):
    """Settings read from `TASKPLANE_GATEWAY_<FIELD>`. A value that cannot work raises Invalid."""

    # Host name or address to listen on. An address beyond loopback requires api_keys or proxy_secret.
    host: str = "127.0.0.1"
    # Port to listen on. 0: any free port.
    port: Port = 8080
    # URL of this gateway for clients, contained in agent cards. Empty: http://<host>:<port>.
    public_url: str = ""
    # Port for A2A over gRPC on the same host. 0: any free port. In `taskplane dev` all gRPC services share --grpc-port.
    grpc_port: Port = 50050
    # Address of A2A over gRPC for clients, host:port, contained in agent cards. Empty: that of this process, but none
    # if public_url is set.
    public_grpc: str = ""
    # Address of the task store: host:port, a list a:1,b:1 of IP addresses, or a gRPC target such as dns:///name:port.
    tasks: str = "127.0.0.1:50051"
    # Address of the session history: host:port, a list a:1,b:1 of IP addresses, or a gRPC target such as
    # dns:///name:port.
    sessions: str = "127.0.0.1:50052"
    # Address of the executors: host:port, a list a:1,b:1 of IP addresses, or a gRPC target such as dns:///name:port.
    executor: str = "127.0.0.1:50053"
    # Shared secret that signs the principal of internal calls. It must be the same in every process. Empty: no
    # signature, and every service must be on loopback.
    internal_secret: str = field(default="", repr=False)

    # A2A version of the agent card for clients that request none: 1.0, 0.3, or hybrid, the union of both.
    card_style: Literal["1.0", "0.3", "hybrid"] = "hybrid"
    # Path of the private key that signs agent cards, a JWK or PEM without a password, for ES256, EdDSA or RS256. Needs
    # the extra signing. Empty: cards are not signed.
    card_key: str = ""
    # Id of that key (`kid`) by which clients know it. Empty: the id in the JWK.
    card_key_id: str = ""
    # URL of the JWK set with its public key (`jku`), contained in signatures. Empty: none.
    card_key_url: str = ""
    # Time in seconds for which a card is cached here and by clients. 0: each request for a card calls the executor.
    card_age: Duration = 30.0
    # Handling of a 0.3 message with an unknown task id. reject: an error. create: a new task with this id.
    client_task_ids: Literal["reject", "create"] = "reject"
    # Whether the message id makes a send without an Idempotency-Key idempotent.
    idempotent_messages: bool = False
    # Handling of an integer in a message that a double cannot represent exactly. text: it becomes its decimal text, and
    # its path is listed in metadata["taskplane.dev/converted"]. refuse: an error.
    large_integers: Literal["text", "refuse"] = "text"
    # Version of A2A 1.0 for the HTTP statuses and gRPC codes of errors over REST and gRPC. 1.0.0 has others than 1.0.1
    # for some errors. A2A 0.3 is not affected.
    error_map: ErrorMap = "1.0.1"
    # Whether requests of A2A 1.0 must name their version. If not, a request without A2A-Version has the version of its
    # method, path or gRPC service.
    strict_version: bool = False
    # Whether a message is refused if the media type of a part is among the input modes neither of the agent's card nor
    # of its skills. Texts are text/plain and data is application/json, unless a part says otherwise.
    validate_input_modes: bool = False
    # Time in milliseconds for which a 0.3 send without `blocking` waits for the beginning of its task. 0: the response
    # follows the creation of the task at once.
    v03_send_grace_ms: Annotated[int, Range(0, 600_000, "milliseconds")] = 250

    # Path of a TOML file with API keys; every call then requires a key. Empty: no keys.
    api_keys: str = ""
    # Secret of a trusted proxy in the header X-Taskplane-Proxy-Secret. X-User-Id of its calls is trusted; the proxy
    # must replace both headers. Empty: no proxy is trusted.
    proxy_secret: str = field(default="", repr=False)
    # Users from that proxy that may read, cancel and delete the tasks of all owners of their tenant. Empty: none.
    proxy_operators: tuple[str, ...] = ()
    # Tenant of callers without a tenant in their key.
    tenant: str = "default"
    # Host names allowed in requests, besides those of loopback. Empty: any with authentication, otherwise those of
    # loopback only.
    allowed_hosts: tuple[str, ...] = ()
    # Origins of web pages that may call this gateway, besides its own. Empty: none.
    cors_origins: tuple[str, ...] = ()

    # Maximum size of a request body in bytes; a larger one is refused. Must be more than 0.
    max_body: Size = 8 * 1024 * 1024
    # Time in seconds for the arrival of a request body or of a request over gRPC; for an import, the time between two
    # parts. Must be more than 0.
    body_timeout: Interval = 30.0
    # Minimum average rate of a request body in bytes per second after its first 5 seconds; a slower one is refused with
    # BODY_TOO_SLOW. 0: no minimum.
    min_body_rate: Annotated[int, Range(0, 2**40, "bytes per second")] = 4096
    # Maximum number of simultaneous request bodies, or requests over gRPC, per caller that take longer than a second to
    # arrive; further ones are refused with TOO_MANY_UPLOADS. Must be more than 0.
    max_uploads_per_principal: Limit = 20
    # Time in seconds for the upload of an imported session, without the time for its processing. Must be more than 0.
    import_upload_timeout: Interval = 1800.0
    # Maximum size of an imported session in bytes; a larger one is refused. Must be more than 0.
    max_import: Size = 1024 * 1024 * 1024
    # Maximum size of one line of an imported session in bytes; a longer one is refused. Must be more than 0.
    max_import_line: Size = 128 * 1024 * 1024
    # Maximum number of imports at once, one per caller; further imports are refused with TOO_MANY_IMPORTS. Each uses up
    # to several times the memory of its longest line. Must be more than 0.
    max_imports: Limit = 2
    # Time in seconds for a store to make an import visible. Must be more than 0.
    import_timeout: Interval = 300.0
    # Maximum number of open streams; further ones are refused with TOO_MANY_STREAMS. Must be more than 0.
    max_streams: Limit = 2_000
    # Maximum number of open streams per caller; further ones are refused with TOO_MANY_STREAMS. Must be more than 0.
    max_streams_per_principal: Limit = 50
    # Maximum number of open calls over gRPC; further ones are refused with TOO_MANY_CALLS. A call is open until its
    # client has taken the reply. Must be more than 0.
    max_grpc_calls: Limit = 4_000
    # Maximum number of open calls over gRPC per caller; further ones are refused with TOO_MANY_CALLS. Must be more than
    # 0.
    max_grpc_calls_per_principal: Limit = 500
    # Maximum number of open calls over gRPC per connection; further ones wait in the client. `taskplane dev`, whose
    # internal services share the port, has no such limit. Must be more than 0.
    max_grpc_calls_per_connection: Limit = 100
    # Time in seconds without an event after which a stream sends a comment. Must be more than 0. Official clients give
    # up after 5 seconds of silence.
    keep_alive: Interval = 3.0
    # Time in seconds for one write to a client; then its connection is closed. Must be more than 0.
    write_timeout: Interval = 30.0
    # Time in seconds for which a stream stays open while a store is unreachable. 0: it ends at once.
    store_patience: Duration = 30.0
    # Time in seconds between the report of not being ready and the end of the streams, so that load balancers stop
    # using this process. 0: none.
    drain_delay: Duration = 1.0
    # Time in seconds for requests after the end of the streams; then they are cut off. 0: at once.
    shutdown_timeout: Annotated[int, Range(0, 86_400, "seconds")] = 5
    # Lowest level of logged messages: DEBUG, INFO, WARNING or ERROR.
    log_level: LogLevel = "INFO"

    @property
    def grpc_listen(self) -> str:
        """Return the address to listen on for A2A over gRPC."""
        host = self.host or "0.0.0.0"
        return f"{f'[{host}]' if ':' in host else host}:{self.grpc_port}"
