/** HTTP to one gateway, with the key of the caller and failures in one form. */

import { Failed, failedHttp } from "./failures";
import { IDLE_LIMIT, type SseEvent, readEvents } from "./sse";

export interface Request {
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** Sent as JSON, or as it is if it is a Blob. */
  readonly body?: unknown;
  readonly signal?: AbortSignal | undefined;
  /** Milliseconds until the response must begin; 0: no limit. */
  readonly timeout?: number;
  /** Called when the response of a stream begins. */
  readonly opened?: (() => void) | undefined;
}

export interface Answer {
  readonly data: unknown;
  readonly headers: Headers;
}

export class Http {
  readonly root: URL;
  readonly #key: () => string;
  readonly #fetch: typeof fetch;

  constructor(root: URL, options: { key: () => string; fetch?: typeof fetch }) {
    this.root = root;
    this.#key = options.key;
    this.#fetch = options.fetch ?? ((input, init) => fetch(input, init));
  }

  /** Return the JSON of an answer; null if it is empty. Raise Failed. */
  async json(path: string, request: Request = {}): Promise<Answer> {
    const response = await this.#open(path, request);
    try {
      const text = await response.text();
      return { data: text ? (JSON.parse(text) as unknown) : null, headers: response.headers };
    } catch (error) {
      if (!(error instanceof SyntaxError)) throw unreachable(error);
      throw new Failed({ code: "NOT_UNDERSTOOD", message: "The server's answer is not JSON.", status: response.status });
    }
  }

  /** Return the content of an answer as a file. Raise Failed. */
  async blob(path: string, request: Request = {}): Promise<Blob> {
    const response = await this.#open(path, { timeout: 0, ...request });
    return response.blob().catch((error: unknown) => {
      throw unreachable(error);
    });
  }

  /** Yield the events of a stream until the server ends it; none for 204. Raise Failed. */
  async *events(path: string, request: Request, idle = IDLE_LIMIT): AsyncGenerator<SseEvent> {
    const response = await this.#open(path, request, "text/event-stream");
    if (response.status === 204 || !response.body) return;
    if (!response.headers.get("Content-Type")?.startsWith("text/event-stream"))
      throw failedHttp(response.status, await response.json().catch(() => null));
    request.opened?.();
    try {
      yield* readEvents(response.body, idle);
    } catch (error) {
      throw error instanceof Failed ? error : unreachable(error);
    }
  }

  async #open(path: string, request: Request, accept = "*/*"): Promise<Response> {
    const { method = "GET", headers = {}, body, signal, timeout = 30_000 } = request;
    const key = this.#key();
    const deadline = new AbortController();
    const late = timeout ? setTimeout(() => deadline.abort(timedOut()), timeout) : undefined;
    try {
      const response = await this.#fetch(new URL(path, this.root), {
        method,
        headers: {
          Accept: accept,
          ...(key ? { Authorization: `Bearer ${key}` } : {}),
          ...(body === undefined || body instanceof Blob ? {} : { "Content-Type": "application/json" }),
          ...headers,
        },
        body: body === undefined ? null : body instanceof Blob ? body : JSON.stringify(body),
        cache: "no-store",
        signal: signal ? AbortSignal.any([signal, deadline.signal]) : deadline.signal,
      });
      if (response.ok) return response;
      const wait = Number(response.headers.get("Retry-After")) || 0;
      throw failedHttp(response.status, await response.json().catch(() => null), wait);
    } catch (error) {
      throw error instanceof Failed ? error : unreachable(error);
    } finally {
      clearTimeout(late);
    }
  }
}

function timedOut(): Failed {
  return new Failed({ code: "TIMED_OUT", message: "The server did not answer in time.", retryable: true });
}

function unreachable(error: unknown): Failed {
  const code = globalThis.navigator?.onLine === false ? "OFFLINE" : "UNREACHABLE";
  const detail = error instanceof Error ? error.message : String(error);
  return new Failed({ code, message: `The server cannot be reached (${detail}).`, retryable: true });
}
