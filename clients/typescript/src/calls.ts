/** One call of the official client: its signal, its parameters, and what its failure means. */

import type { RequestOptions } from "@a2a-js/sdk/client";
import { A2AError, isJsonRpcError, isRestError, JsonRpcTransportError } from "@a2a-js/sdk/errors";
import { failureOf, isAway, Unreachable, unreachable } from "./failures.ts";
import { answerOf } from "./fetching.ts";

// Of a server that cannot work now. Codes of JSON-RPC: an internal error, and too many requests or streams. Codes of gRPC:
// cancelled by the server, deadline exceeded, internal, unavailable.
const AWAY: ReadonlySet<unknown> = new Set([-32603, -32029]);
const AWAY_GRPC: ReadonlySet<unknown> = new Set([1, 4, 13, 14]);
const RESOURCE_EXHAUSTED = 8;

/** Return the failure of a stream that the server closed in good order, but too soon. */
export function closed(): Unreachable {
  return new Unreachable("The server closed the stream before the end.", { reason: "STREAM_CLOSED" });
}

/** A call with the options of the caller and further headers. `end` it, which also closes its connection. */
export class Call {
  readonly options: RequestOptions;
  readonly #ends = new AbortController();
  readonly #signal: AbortSignal | undefined;
  readonly #aborted = (): void => this.#ends.abort(this.#signal?.reason);

  constructor({ signal, context, serviceParameters }: RequestOptions, headers: Readonly<Record<string, string>>) {
    signal?.throwIfAborted();
    signal?.addEventListener("abort", this.#aborted, { once: true });
    this.#signal = signal;
    const parameters = { ...serviceParameters, ...headers };
    this.options = { signal: this.#ends.signal, serviceParameters: parameters, ...(context && { context }) };
  }

  /** Milliseconds from the first byte to the last one; 0 if no `steadyFetch` noticed them. */
  get lifetime(): number {
    const answer = answerOf(this.#ends.signal);
    return answer ? answer.heard - answer.at : 0;
  }

  /**
   * Return that the server cannot be reached. Raise any other error: that of the official client for what A2A defines, else
   * a `Failure`. Raise the reason of the caller who has ended the call.
   */
  lost(error: unknown): Unreachable {
    this.#signal?.throwIfAborted();
    const { status = 0, retryAfter = 0 } = answerOf(this.#ends.signal) ?? {};
    const told = toldBy(error);
    if (told && !(told instanceof JsonRpcTransportError && typeof told.envelopeCode !== "number")) {
      if (!isPassing(told)) throw told;
      return unreachable(error, delayOf(told) || retryAfter);
    }
    // An answer that is not of A2A: of a proxy, or about the credentials.
    const { errorResponse: body } = told ?? {};
    if (status >= 400 && !isAway(status)) throw failureOf(status, body, { cause: error });
    if (told && !status) throw error;
    return unreachable(error, retryAfter);
  }

  /** Release everything. */
  end(): void {
    this.#signal?.removeEventListener("abort", this.#aborted);
    this.#ends.abort();
  }
}

/** Return the error of A2A that an error is, or has as its cause if it came within a stream; null for another one. */
export function toldBy(error: unknown): A2AError | null {
  if (error instanceof A2AError) return error;
  return error instanceof Error && error.cause instanceof A2AError ? error.cause : null;
}

/** Return whether a repeat may help: an error within a stream has the status of the stream. */
function isPassing(error: A2AError): boolean {
  if (isJsonRpcError(error)) return AWAY.has(error.envelopeCode);
  // A limit that passes has details; the library refuses a message that is too large without any.
  if (isGrpcError(error)) return AWAY_GRPC.has(error.status) || (error.status === RESOURCE_EXHAUSTED && !!error.statusDetailsBin);
  if (!isRestError(error)) return false;
  return isAway(error.statusCode) || (error.statusCode < 400 && error.reason === "INTERNAL_ERROR");
}

/** Return whether an error is a `GrpcA2AError`: the guard of the official client loads its gRPC library. */
function isGrpcError(error: A2AError): error is A2AError & { readonly status: unknown; readonly statusDetailsBin?: unknown } {
  return "transport" in error && error.transport === "grpc" && "status" in error;
}

/** Return the seconds that an error asks to wait; 0 if it does not. */
function delayOf(error: A2AError): number {
  if (isRestError(error)) return Number(error.headers?.["retry-after"]) || 0;
  const details: unknown = isJsonRpcError(error) ? error.data : undefined;
  const found = (Array.isArray(details) ? details : []).find((one) => String(one?.["@type"]).endsWith("google.rpc.RetryInfo"));
  return Number.parseFloat(found?.retryDelay) || 0;
}
