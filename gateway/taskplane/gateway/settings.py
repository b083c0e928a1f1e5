"""Settings of the gateway process and their defaults. Times are in seconds unless the name says otherwise."""

from dataclasses import dataclass, field
from typing import Annotated, Final, Literal

from taskplane.runtime.bounds import Duration, Interval, Limit, LogLevel, Port, Range, Size, out_of_range, refuse

PREFIX: Final = "TASKPLANE_GATEWAY_"


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewaySettings:
    """Settings read from `TASKPLANE_GATEWAY_<FIELD>`. A value that cannot work raises Invalid."""

    # The host name or address to listen on. An address beyond loopback requires api_keys or proxy_secret.
    host: str = "127.0.0.1"
    # Port to listen on; 0 takes any free port.
    port: Port = 8080
    # The URL of this gateway for clients, which agent cards contain; empty: http://<host>:<port>.
    public_url: str = ""
    # Address of the task store: host:port, a list a:1,b:1 of IP addresses, or a gRPC target such as dns:///name:port.
    tasks: str = "127.0.0.1:50051"
    # Address of the session history: host:port, a list a:1,b:1 of IP addresses, or a gRPC target such as
    # dns:///name:port.
    sessions: str = "127.0.0.1:50052"
    # Address of the executors: host:port, a list a:1,b:1 of IP addresses, or a gRPC target such as dns:///name:port.
    executor: str = "127.0.0.1:50053"
    # Signs the principal of internal calls. It must be the same in every process. Empty: none; then every service must
    # be on loopback.
    internal_secret: str = field(default="", repr=False)

    # The A2A version of the agent card for clients that do not ask for one: 1.0, 0.3, or hybrid, which is the union of
    # both.
    card_style: Literal["1.0", "0.3", "hybrid"] = "hybrid"
    # Seconds for which a card is cached here and by clients; 0: the executor is called for each card.
    card_age: Duration = 30.0
    # The effect of a 0.3 message that names a task which does not exist. reject: an error. create: a new task with this
    # id.
    client_task_ids: Literal["reject", "create"] = "reject"
    # Whether a send without an Idempotency-Key is idempotent by its message id.
    idempotent_messages: bool = False
    # The effect of an integer in a message that a double cannot hold. text: it becomes its decimal text, and its path
    # is listed in metadata["taskplane.dev/converted"]. refuse: an error.
    large_integers: Literal["text", "refuse"] = "text"
    # Milliseconds that a 0.3 send without `blocking` waits for its task to begin; 0: it is answered as soon as the task
    # exists.
    v03_send_grace_ms: Annotated[int, Range(0, 600_000)] = 250

    # The path of a TOML file with the API keys; every call then needs a key. Empty: no keys.
    api_keys: str = ""
    # Calls with this value in the header X-Taskplane-Proxy-Secret come from a proxy whose X-User-Id is trusted; it must
    # replace both headers. Empty: no proxy is trusted.
    proxy_secret: str = field(default="", repr=False)
    # Users named by that proxy who may read, cancel and delete the tasks of all owners of their tenant. Empty: none.
    proxy_operators: tuple[str, ...] = ()
    # The tenant of callers that no key assigns to one.
    tenant: str = "default"
    # Host names that this gateway answers to, besides those of loopback. Empty: any if authentication is configured,
    # otherwise those of loopback only.
    allowed_hosts: tuple[str, ...] = ()
    # Origins of web pages that may call this gateway, besides its own. Empty: none.
    cors_origins: tuple[str, ...] = ()

    # Bytes of a request body; a larger one is refused. Must be more than 0.
    max_body: Size = 8 * 1024 * 1024
    # Seconds in which a request body must arrive; of an import, seconds until its next part. Must be more than 0.
    body_timeout: Interval = 30.0
    # Bytes per second that a request body must bring on average after its first 5 seconds; a slower one is refused with
    # BODY_TOO_SLOW. 0: any.
    min_body_rate: Annotated[int, Range(0, 2**40)] = 4096
    # Number of request bodies of one caller that take longer than a second to arrive, at once; further ones are refused
    # with TOO_MANY_UPLOADS. Must be more than 0.
    max_uploads_per_principal: Limit = 20
    # Seconds in which a session that is imported must arrive, without the time in which it is read here. Must be
    # more than 0.
    import_upload_timeout: Interval = 1800.0
    # Bytes of a session that is imported; a larger one is refused. Must be more than 0.
    max_import: Size = 1024 * 1024 * 1024
    # Bytes of one line of a session that is imported; a longer one is refused. Must be more than 0.
    max_import_line: Size = 128 * 1024 * 1024
    # Number of sessions that are imported at once, one of each caller; further imports are refused with
    # TOO_MANY_IMPORTS. Each takes up to several times the memory of its longest line. Must be more than 0.
    max_imports: Limit = 2
    # Seconds that a store may take to make an import visible. Must be more than 0.
    import_timeout: Interval = 300.0
    # Number of open streams at once; further ones are refused with TOO_MANY_STREAMS. Must be more than 0.
    max_streams: Limit = 2_000
    # Number of open streams of one caller at once; further ones are refused with TOO_MANY_STREAMS. Must be more than 0.
    max_streams_per_principal: Limit = 50
    # Seconds of silence on a stream after which a comment is sent. Must be more than 0; official clients give up after
    # 5 seconds of silence.
    keep_alive: Interval = 3.0
    # Seconds that one write to a client may block before its connection is cut. Must be more than 0.
    write_timeout: Interval = 30.0
    # Seconds that a stream stays open while a store cannot be reached; 0: it ends at once.
    store_patience: Duration = 30.0
    # Seconds between reporting not ready and the end of the streams, in which balancers leave this process; 0: at once.
    drain_delay: Duration = 1.0
    # Seconds that requests may continue after the streams have ended; 0: they are cut at once.
    shutdown_timeout: Annotated[int, Range(0, 86_400)] = 5
    # The least severe messages that are logged: DEBUG, INFO, WARNING or ERROR.
    log_level: LogLevel = "INFO"

    def __post_init__(self) -> None:
        refuse(out_of_range(self))
