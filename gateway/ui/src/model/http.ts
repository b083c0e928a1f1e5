/** HTTP to one gateway: requests with the key of the caller, streams of events, and failures in one form. */

import { type EventSourceMessage, createParser } from "eventsource-parser";
import { type Json, attempt, object, objects, parsed, text } from "./json";

/** An event of a stream, with its JSON; `event` is its name. */
export type SseEvent = Pick<EventSourceMessage, "id" | "event"> & { readonly body: Json };

/** Milliseconds without a byte after which a connection counts as dead: the server says something every 3 s. */
const IDLE_LIMIT = 45_000;
/** Milliseconds: a time in a header has whole seconds, and was sent a moment ago. */
const CLOSE = 5_000;

export interface Request {
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** Sent as JSON, or as it is if it is a Blob, which tells its type. */
  readonly body?: unknown;
  readonly signal?: AbortSignal | undefined;
  /** Milliseconds until the response must begin; 0: no limit. */
  readonly timeout?: number | undefined;
  /** Called when the response of a stream begins. */
  readonly opened?: (() => void) | undefined;
}

/** `refused` is called whenever the server does not take the key. Every method raises what `failureOf` understands. */
export class Http {
  /** Milliseconds by which the clock of this machine is ahead of the server's; a few seconds count as none. */
  #ahead = 0;

  constructor(
    readonly root: URL,
    private readonly key: () => string,
    private readonly refused = () => {},
  ) {}

  /** Return the time of the server, in milliseconds since 1970, with which its times are compared. */
  readonly now = () => Date.now() - this.#ahead;

  /** Return the JSON of an answer; null if it is empty. */
  async json<Body = unknown>(path: string, request: Request = {}): Promise<Body> {
    const response = await this.#open(path, request);
    const text = await response.text().catch(unreachable);
    try {
      return (text ? JSON.parse(text) : null) as Body;
    } catch {
      throw new Failed("NOT_UNDERSTOOD", "The server's answer is not JSON.", { status: response.status });
    }
  }

  /** Return what an answer of `/api` has as its data. */
  async data<Data>(path: string, request: Request = {}): Promise<Data> {
    return (await this.json<{ data: Data }>(path, request)).data;
  }

  /** Return the content of an answer as a file. */
  async blob(path: string): Promise<Blob> {
    return (await this.#open(path, { timeout: 0 })).blob().catch(unreachable);
  }

  /**
   * Yield the events of a stream until the server ends it; none for 204. Raise Failed: what an event tells, or `TIMED_OUT`
   * if `idle` ms are silent.
   */
  async *stream(path: string, request: Request, idle = IDLE_LIMIT): AsyncGenerator<SseEvent> {
    const ends = new AbortController();
    const response = await this.#open(path, request, ends, "text/event-stream");
    if (response.status === 204 || !response.body) return;
    if (!response.headers.get("Content-Type")?.startsWith("text/event-stream")) throw await refusal(response);
    request.opened?.();
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    const events: EventSourceMessage[] = [];
    const parser = createParser({ onEvent: (event) => events.push(event) });
    try {
      for (;;) {
        const silent = limit(ends, idle);
        const { done, value } = await reader.read().finally(() => clearTimeout(silent));
        if (done) return;
        parser.feed(value);
        for (const { id, event, data } of events.splice(0)) {
          const body = attempt(() => object(JSON.parse(data)), null) ?? { unreadable: data };
          // Members of JSON-RPC; an event of a session may have an `error` as well.
          if (event === "error" || (body["jsonrpc"] && body["error"])) throw failed(400, body);
          yield { id, event, body };
        }
      }
    } catch (error) {
      unreachable(ends.signal.reason ?? error);
    } finally {
      ends.abort();
    }
  }

  async #open(path: string, request: Request, ends = new AbortController(), accept = "*/*"): Promise<Response> {
    const { method = "GET", headers = {}, body, signal, timeout = 30_000 } = request;
    const key = this.key();
    const late = timeout ? limit(ends, timeout) : undefined;
    try {
      const response = await fetch(new URL(path, this.root), {
        method,
        headers: {
          Accept: accept,
          ...(key && { Authorization: `Bearer ${key}` }),
          ...(body !== undefined && { "Content-Type": body instanceof Blob ? body.type : "application/json" }),
          ...headers,
        },
        body: body === undefined ? null : body instanceof Blob ? body : JSON.stringify(body),
        cache: "no-store",
        // A deletion is sent even while the page is left.
        keepalive: method === "DELETE",
        signal: signal ? AbortSignal.any([signal, ends.signal]) : ends.signal,
      });
      const ahead = Date.now() - Date.parse(response.headers.get("Date") ?? "");
      this.#ahead = Math.abs(ahead) > CLOSE ? ahead : 0;
      if (response.ok) return response;
      if (response.status === 401) this.refused();
      throw await refusal(response);
    } catch (error) {
      return unreachable(error);
    } finally {
      clearTimeout(late);
    }
  }
}

/** Abort what takes longer than so many milliseconds. */
function limit(ends: AbortController, ms: number) {
  return setTimeout(() => ends.abort(new Failed("TIMED_OUT", "The server said nothing for too long.", { retryable: true })), ms);
}

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
    this.failure = { ...NOTHING, ...more, code, message };
  }
}

/** Return the failure for whatever was thrown. */
export function failureOf(error: unknown): Failure {
  return (error instanceof Failed ? error : new Failed("NOT_UNDERSTOOD", String(error))).failure;
}

/** Return the failure for an HTTP status and its body: of the server, of A2A, or of whatever is between. */
export function failed(status: number, { error, ...told }: Partial<Failure> & { error?: unknown }): Failed {
  const rpc = object(error) ?? {};
  if (Number(rpc["code"]) < 0) return failedRpc(rpc);
  const code = told.code || (UNREACHABLE.includes(status) ? "UNREACHABLE" : `HTTP${status}`);
  const message = (typeof error === "string" ? error : told.message) || `The server answered HTTP ${status}.`;
  const retryable = told.retryable === true || [429, 500, ...UNREACHABLE].includes(status);
  return new Failed(code, message, { ...told, retryable, status });
}

/** Return the failure for a JSON-RPC error object (A2A 1.0, section 5.4). */
function failedRpc({ code, message, data }: Json): Failed {
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

/** Return the failure that an answer tells. */
async function refusal(response: Response): Promise<Failed> {
  const told: Partial<Failure> = parsed(await response.text().catch(() => ""));
  const wait = Number(response.headers.get("Retry-After")) || 0;
  return failed(response.status, { ...told, retryAfter: told.retryAfter || wait });
}

/** Raise an error of the transport as Failed. */
function unreachable(error: unknown): never {
  if (error instanceof Failed) throw error;
  const code = globalThis.navigator?.onLine === false ? "OFFLINE" : "UNREACHABLE";
  throw new Failed(code, `The server cannot be reached (${String(error)}).`, { retryable: true });
}

/** Wait; return early if `signal` is aborted. */
export function sleep(milliseconds: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      clearTimeout(timer);
      signal.removeEventListener("abort", done);
      resolve();
    };
    const timer = setTimeout(done, signal.aborted ? 0 : milliseconds);
    signal.addEventListener("abort", done);
  });
}
