"""Settings of the gateway process and their defaults. Times are in seconds unless the name says otherwise."""

from dataclasses import dataclass, field
from typing import Final, Literal

from taskplane.runtime.errors import Invalid

PREFIX: Final = "TASKPLANE_GATEWAY_"

_POSITIVE: Final = (
    "max_body",
    "body_timeout",
    "max_import",
    "max_import_line",
    "import_timeout",
    "max_streams",
    "max_streams_per_principal",
    "keep_alive",
    "write_timeout",
)
_NOT_NEGATIVE: Final = (
    "port",
    "card_age",
    "v03_send_grace_ms",
    "store_patience",
    "drain_delay",
    "shutdown_timeout",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewaySettings:
    """Settings read from `TASKPLANE_GATEWAY_<FIELD>`. A value that cannot work raises Invalid."""

    host: str = "127.0.0.1"
    # 0: any free one.
    port: int = 8080
    # Where clients reach this gateway, as agent cards name it; empty: http://<host>:<port>.
    public_url: str = ""
    # Address of the task store: host:port, a list a:1,b:1 of IP addresses, or a gRPC target such as dns:///name:port.
    tasks: str = "127.0.0.1:50051"
    # Address of the session history, in the same forms.
    sessions: str = "127.0.0.1:50052"
    # Address of the executor, in the same forms.
    executor: str = "127.0.0.1:50053"
    # Signs the principal of internal calls; the same in every process. Needed unless the services are on loopback.
    internal_secret: str = field(default="", repr=False)

    # Which A2A version the well-known agent card shows to clients that do not ask for one.
    card_style: Literal["1.0", "0.3", "hybrid"] = "hybrid"
    # How long a card is served before it is asked for again, and how long clients may keep it.
    card_age: float = 30.0
    # What becomes of a 0.3 message that names a task which does not exist: an error, or a new task with this id.
    client_task_ids: Literal["reject", "create"] = "reject"
    # Sends without an Idempotency-Key are idempotent by their message id.
    idempotent_messages: bool = False
    # How long a 0.3 send that does not say `blocking` waits for the task to begin, in milliseconds.
    v03_send_grace_ms: int = 250

    # TOML file with the API keys; with one, every call needs a key.
    api_keys: str = ""
    # Calls with this value in the header X-Taskplane-Proxy-Secret come from a proxy whose X-User-Id is believed.
    proxy_secret: str = field(default="", repr=False)
    # Tenant of callers that no key assigns to one.
    tenant: str = "default"
    # Host names this gateway answers to, beside those of loopback; empty with authentication: any.
    allowed_hosts: tuple[str, ...] = ()
    # Origins of web pages that may call this gateway, beside its own.
    cors_origins: tuple[str, ...] = ()

    # Bytes of a request body, and how long it may take to arrive.
    max_body: int = 8 * 1024 * 1024
    body_timeout: float = 30.0
    # Bytes of a session that is imported, and of one line of it.
    max_import: int = 1024 * 1024 * 1024
    max_import_line: int = 128 * 1024 * 1024
    # How long a store may take to make what was imported visible.
    import_timeout: float = 300.0
    max_streams: int = 2_000
    max_streams_per_principal: int = 50
    # Silence on a stream after which a comment is sent.
    keep_alive: float = 3.0
    # How long one write to a client may block before its connection is cut.
    write_timeout: float = 30.0
    # How long a stream stays open while the task store cannot be reached.
    store_patience: float = 30.0
    # Between not being ready any more and the end of streams.
    drain_delay: float = 1.0
    # How long requests may go on after that.
    shutdown_timeout: int = 5
    log_level: str = "INFO"

    def __post_init__(self) -> None:
        wrong: dict[str, str] = {}
        for name in _POSITIVE:
            if not getattr(self, name) > 0:
                wrong[name] = "must be more than 0"
        for name in _NOT_NEGATIVE:
            if getattr(self, name) < 0:
                wrong[name] = "must not be negative"
        if wrong:
            text = "; ".join(f"{name} {problem}" for name, problem in wrong.items())
            raise Invalid(f"these settings cannot be used: {text}", reason="BAD_SETTING", fields=wrong)
