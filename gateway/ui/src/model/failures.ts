/** Failures between the page and a server, in one form whatever the transport said. */

import { type Json, object, objects, text } from "./json";

/** Statuses of a proxy that does not reach the server, where the answer says no more. */
const UNREACHABLE = [502, 503, 504];
const NOTHING = { suggestion: "", retryable: false, retryAfter: 0, status: 0, metadata: {} as Readonly<Record<string, string>> };
/**
 * What a failure tells: the reason of the server, or `OFFLINE`, `UNREACHABLE`, `TIMED_OUT`, `NOT_UNDERSTOOD`. The status is
 * that of HTTP; 0 if there was no response. `retryAfter`: seconds that the server asked to wait; 0: it did not.
 */
export type Failure = Readonly<typeof NOTHING & Record<"code" | "message", string>>;

/** An error that carries what a person can act on. */
export class Failed extends Error {
  readonly failure: Failure;

  constructor(code: string, message: string, more: Partial<Failure> = {}) {
    super(message);
    this.name = "Failed";
    this.failure = { ...NOTHING, ...more, code, message };
  }
}

/** Return the failure for whatever was thrown. */
export function failureOf(error: unknown): Failure {
  if (error instanceof Failed) return error.failure;
  const message = error instanceof Error ? error.message : String(error);
  return new Failed("NOT_UNDERSTOOD", message).failure;
}

/** Return the failure for a JSON-RPC error object (A2A 1.0, section 5.4). */
export function failedRpc({ code, message, data }: Json): Failed {
  const detail = (type: string): Json => objects(data).find((one) => text(one, "@type").endsWith(`google.rpc.${type}`)) ?? {};
  const info = detail("ErrorInfo");
  const metadata = (info["metadata"] ?? {}) as Readonly<Record<string, string>>;
  const reason = metadata["reason"] ?? (text(info, "reason") || `RPC${String(code)}`);
  const retryAfter = Number.parseFloat(text(detail("RetryInfo"), "retryDelay")) || 0;
  return new Failed(reason, String(message || "The server gave no reason."), {
    suggestion: metadata["suggestion"] ?? "",
    retryable: retryAfter > 0 || code === -32603 || code === -32029,
    retryAfter,
    status: 200,
    metadata: { ...metadata, rpc: String(code) },
  });
}

/** Return the failure for an HTTP status and its body: of the server, of A2A, or of whatever is between. */
export function failedHttp(status: number, body: unknown, wait = 0): Failed {
  const { error, ...told } = (object(body) ?? {}) as Partial<Failure> & { error?: unknown };
  const inner = object(error) ?? {};
  if (Number(inner["code"]) < 0) return failedRpc(inner);
  const said = (typeof error === "string" ? error : text(inner, "message")) || told.message;
  return new Failed(told.code || text(inner, "status") || (UNREACHABLE.includes(status) ? "UNREACHABLE" : `HTTP${status}`), said || `The server answered HTTP ${status}.`, {
    ...told,
    retryable: told.retryable === true || [429, 500, ...UNREACHABLE].includes(status),
    retryAfter: wait || told.retryAfter || 0,
    status,
  });
}
