/** Failures between a program and a server, with texts that a person can act on. */

/** What a failure tells besides its message. */
export interface Told {
  /** A stable word such as `SESSION_NOT_FOUND`. */
  readonly reason: string;
  /** The status of HTTP; 0: there was no answer. */
  readonly status?: number;
  /** The next step; empty if there is none. */
  readonly suggestion?: string;
  /** Seconds that the server asked to wait; 0: it did not. */
  readonly retryAfter?: number;
  readonly cause?: unknown;
}

/** A call that failed. `reason` is stable, for programs; `message` and `suggestion` are for people. */
export class Failure extends Error {
  override readonly name: string = "Failure";
  readonly reason: string;
  readonly status: number;
  readonly suggestion: string;
  readonly retryAfter: number;

  constructor(message: string, { reason, status = 0, suggestion = "", retryAfter = 0, cause }: Told) {
    super(message, { cause });
    this.reason = reason;
    this.status = status;
    this.suggestion = suggestion;
    this.retryAfter = retryAfter;
  }
}

/** No answer, or the server cannot work now. The call may have taken effect: repeat it under its key. */
export class Unreachable extends Failure {
  override readonly name = "Unreachable";
}

/** The server does not know the caller, or does not allow this. */
export class Unauthorized extends Failure {
  override readonly name = "Unauthorized";
}

/** There is no such object, or it is one of another owner. */
export class Missing extends Failure {
  override readonly name = "Missing";
}

/** The server refuses the request. */
export class Declined extends Failure {
  override readonly name = "Declined";
}

/** Another program than taskplane answers at this address. */
export class NotUnderstood extends Failure {
  override readonly name = "NotUnderstood";
}

/** An argument cannot be used; nothing was sent. */
export class BadUsage extends Failure {
  override readonly name = "BadUsage";
}

// Codes of Node for a connection that could not be made.
const NOT_CONNECTED: ReadonlySet<unknown> = new Set(["ECONNREFUSED", "ENOTFOUND", "EHOSTUNREACH", "ENETUNREACH"]);

/** Return the failure of a connection: `UNREACHABLE` if it could not be made, as far as that is told, else `CONNECTION_LOST`. */
export function unreachable(error: unknown, retryAfter = 0): Unreachable {
  if (error instanceof Unreachable) return error;
  const cause = error instanceof Error ? (error.cause as { code?: unknown } | undefined) : undefined;
  const reason = NOT_CONNECTED.has(cause?.code) ? "UNREACHABLE" : "CONNECTION_LOST";
  return new Unreachable(`The server cannot be reached: ${String(error)}`, { reason, retryAfter, cause: error });
}

/** Return whether a server that answers with this HTTP status cannot work now. */
export function isAway(status: number): boolean {
  return [429, 500, 502, 503, 504].includes(status);
}

/** Return the failure for an HTTP status of 400 or more, and its body: `{"error": text, "code": reason, "suggestion"}`. */
export function failureOf(status: number, body: unknown, told: Partial<Told> = {}): Failure {
  const { error, code, suggestion } = (typeof body === "object" && body !== null ? body : {}) as Record<string, unknown>;
  const kind = isAway(status) ? Unreachable : status === 401 || status === 403 ? Unauthorized : status === 404 ? Missing : Declined;
  return new kind(typeof error === "string" ? error : `The server answered HTTP ${status}.`, {
    ...told,
    reason: typeof code === "string" ? code : `HTTP${status}`,
    status,
    suggestion: typeof suggestion === "string" ? suggestion : "",
  });
}
