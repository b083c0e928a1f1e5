/** HTTP to one gateway, with the key of the caller and failures in one form. */

import { type EventSourceMessage, createParser } from "eventsource-parser";
import { Failed, failedHttp } from "./failures";
import { parsed } from "./json";

/** An event of a stream; `event` is its name. */
export type SseEvent = EventSourceMessage;

/** Milliseconds without a byte after which a connection counts as dead: the server says something every 3 s. */
const IDLE_LIMIT = 45_000;
/** Milliseconds: a time in a header has whole seconds, and was sent a moment ago. */
const CLOSE = 5_000;

export interface Request {
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** Sent as JSON, or as it is if it is a Blob. */
  readonly body?: unknown;
  readonly signal?: AbortSignal | undefined;
  /** Milliseconds until the response must begin; 0: no limit. */
  readonly timeout?: number | undefined;
  /** Called when the response of a stream begins. */
  readonly opened?: (() => void) | undefined;
}

/** `refused` is called whenever the server does not take the key. */
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

  /** Return the JSON of an answer; null if it is empty. Raise Failed. */
  async json<Body = unknown>(path: string, request: Request = {}): Promise<Body> {
    const response = await this.#open(path, request);
    const text = await response.text().catch(unreachable);
    try {
      return (text ? JSON.parse(text) : null) as Body;
    } catch {
      throw new Failed("NOT_UNDERSTOOD", "The server's answer is not JSON.", { status: response.status });
    }
  }

  /** Return what an answer of `/api` has as its data. Raise Failed. */
  async data<Data>(path: string, request: Request = {}): Promise<Data> {
    return (await this.json<{ data: Data }>(path, request)).data;
  }

  /** Return the content of an answer as a file. Raise Failed. */
  async blob(path: string): Promise<Blob> {
    return (await this.#open(path, { timeout: 0 })).blob().catch(unreachable);
  }

  /**
   * Yield the events of a stream until the server ends it; none for 204. Raise Failed: what an event tells, or `TIMED_OUT`
   * if `idle` ms are silent.
   */
  async *stream(path: string, request: Request, idle = IDLE_LIMIT): AsyncGenerator<SseEvent> {
    const response = await this.#open(path, request, "text/event-stream");
    if (response.status === 204 || !response.body) return;
    if (!response.headers.get("Content-Type")?.startsWith("text/event-stream"))
      throw failedHttp(response.status, await response.json().catch(() => null));
    request.opened?.();
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    // What is cancelled has no further text.
    const cancel = (): void => void reader.cancel().catch(() => undefined);
    const events: SseEvent[] = [];
    const parser = createParser({ onEvent: (event) => events.push(event) });
    try {
      for (;;) {
        let silent = false;
        const timer = setTimeout(() => {
          silent = true;
          cancel();
        }, idle);
        const { done, value } = await reader.read().catch(unreachable).finally(() => clearTimeout(timer));
        if (silent) throw timedOut("Nothing was received for too long.");
        if (done) return;
        parser.feed(value);
        for (const event of events.splice(0)) yield sound(event);
      }
    } finally {
      cancel();
    }
  }

  async #open(path: string, request: Request, accept = "*/*"): Promise<Response> {
    const { method = "GET", headers = {}, body, signal, timeout = 30_000 } = request;
    const key = this.key();
    const deadline = new AbortController();
    const late = timeout ? setTimeout(() => deadline.abort(timedOut("The server did not answer in time.")), timeout) : undefined;
    try {
      const response = await fetch(new URL(path, this.root), {
        method,
        headers: {
          Accept: accept,
          ...(key ? { Authorization: `Bearer ${key}` } : {}),
          ...(body === undefined || body instanceof Blob ? {} : { "Content-Type": "application/json" }),
          ...headers,
        },
        body: body === undefined ? null : body instanceof Blob ? body : JSON.stringify(body),
        cache: "no-store",
        // A deletion is sent even while the page is left.
        keepalive: method === "DELETE",
        signal: signal ? AbortSignal.any([signal, deadline.signal]) : deadline.signal,
      });
      const ahead = Date.now() - Date.parse(response.headers.get("Date") ?? "");
      this.#ahead = Math.abs(ahead) > CLOSE ? ahead : 0;
      if (response.ok) return response;
      if (response.status === 401) this.refused();
      const wait = Number(response.headers.get("Retry-After")) || 0;
      throw failedHttp(response.status, await response.json().catch(() => null), wait);
    } catch (error) {
      return unreachable(error);
    } finally {
      clearTimeout(late);
    }
  }
}

/** Return an event that tells no failure; raise the failure of another one. */
function sound(event: SseEvent): SseEvent {
  const named = event.event === "error";
  const told = named || event.data.startsWith('{"jsonrpc":"2.0","id":') ? parsed(event.data) : {};
  if (named || told["error"]) throw failedHttp(told["retryable"] === true ? 503 : 400, told);
  return event;
}

function timedOut(message: string): Failed {
  return new Failed("TIMED_OUT", message, { retryable: true });
}

/** Raise an error of the transport as Failed. */
function unreachable(error: unknown): never {
  if (error instanceof Failed) throw error;
  const code = globalThis.navigator?.onLine === false ? "OFFLINE" : "UNREACHABLE";
  const detail = error instanceof Error ? error.message : String(error);
  throw new Failed(code, `The server cannot be reached (${detail}).`, { retryable: true });
}
