/** Failures between the page and a server, in one form whatever the transport said. */

import { type Json, object, objects, text } from "./json";

const NOTHING = { code: "", message: "", suggestion: "", retryable: false, requestId: "", status: 0, metadata: {} as Record<string, string> };
/**
 * What a failure tells: the reason of the server, or `OFFLINE`, `UNREACHABLE`, `TIMED_OUT`, `NOT_UNDERSTOOD`. The status is
 * that of HTTP; 0 if there was no response.
 */
export type Failure = Readonly<typeof NOTHING>;

/** An error that carries what a person can act on. */
export class Failed extends Error {
  readonly failure: Failure;
  /** Seconds that the server asked to wait; 0: it did not. */
  readonly retryAfter: number;

  constructor(failure: Partial<Failure> & { code: string; message: string }, retryAfter = 0) {
    super(failure.message);
    this.name = "Failed";
    this.failure = { ...NOTHING, ...failure };
    this.retryAfter = retryAfter;
  }

  static of(code: string, message: string): Failed {
    return new Failed({ code, message });
  }
}

/** Return the failure for whatever was thrown. */
export function failureOf(error: unknown): Failure {
  if (error instanceof Failed) return error.failure;
  const message = error instanceof Error ? error.message : String(error);
  return Failed.of("NOT_UNDERSTOOD", message).failure;
}

/** Return whether the request may not have reached the server, or its answer not this client. */
export function unanswered(error: unknown): boolean {
  return error instanceof Failed && (error.failure.status === 0 || error.failure.status >= 500) && error.failure.retryable;
}

/** Return the failure for a JSON-RPC error object (A2A 1.0, section 5.4). */
export function failedRpc({ code, message, data }: Json): Failed {
  const detail = (type: string): Json => objects(data).find((one) => text(one, "@type").endsWith(`google.rpc.${type}`)) ?? {};
  const info = detail("ErrorInfo");
  const delay = Number.parseFloat(text(detail("RetryInfo"), "retryDelay")) || 0;
  const metadata = (info["metadata"] ?? {}) as Readonly<Record<string, string>>;
  return new Failed(
    {
      code: metadata["reason"] ?? (text(info, "reason") || `RPC${String(code)}`),
      message: String(message || "The server gave no reason."),
      suggestion: metadata["suggestion"] ?? "",
      retryable: delay > 0 || code === -32603 || code === -32029,
      requestId: metadata["requestId"] ?? "",
      status: 200,
      metadata: { ...metadata, rpc: String(code) },
    },
    delay,
  );
}

/** Return the failure for an HTTP status and its body: of the server, of A2A, or of whatever is between. */
export function failedHttp(status: number, body: unknown, retryAfter = 0): Failed {
  const { error, ...told } = (object(body) ?? {}) as Partial<Failure> & { error?: unknown; retryAfter?: number };
  const inner = object(error) ?? {};
  const said = typeof error === "string" ? error : text(inner, "message");
  if (Number(inner["code"]) < 0) return failedRpc(inner);
  return new Failed(
    {
      ...told,
      code: told.code || text(inner, "status") || `HTTP${status}`,
      message: said || told.message || `The server answered HTTP ${status}.`,
      retryable: told.retryable === true || [429, 500, 502, 503, 504].includes(status),
      status,
    },
    retryAfter || told.retryAfter,
  );
}
