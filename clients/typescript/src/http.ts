/** The calls of the routes under `/api`: JSON, and streams of named events. Every error is a `Failure`. */

import { parseSseStream } from "@a2a-js/sdk";
import { Failure, failureOf, NotUnderstood, unreachable } from "./failures.ts";
import { steadyFetch } from "./fetching.ts";

/** A server and its caller. */
export interface Server {
  /** The address of the server, with a path if it stands below one. */
  readonly url: string | URL;
  /** The API key, sent as a bearer token. */
  readonly token?: string;
  /** The name of the caller, for a server on loopback without keys. */
  readonly user?: string;
  readonly fetch?: typeof fetch;
}

/** A request, with its body as JSON. */
export interface Sent {
  readonly method?: "GET" | "POST" | "PATCH" | "DELETE";
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal | undefined;
}

// Bytes; the first event of a watch has every task of its session.
const LARGEST_EVENT = 64 * 1024 * 1024;

/** HTTP to one server. */
export class Http {
  readonly #root: URL;
  readonly #headers: Readonly<Record<string, string>>;
  readonly #fetch: typeof fetch;

  constructor({ url, token, user, fetch: base }: Server) {
    this.#root = new URL(url);
    if (!this.#root.pathname.endsWith("/")) this.#root.pathname += "/";
    this.#headers = { ...(token && { Authorization: `Bearer ${token}` }), ...(user && { "X-User-Id": user }) };
    this.#fetch = steadyFetch(base);
  }

  /** Return the JSON object of an answer. Raise `Failure`. */
  async json<Answer extends object>(path: string, sent: Sent = {}): Promise<Answer> {
    const response = await this.#open(path, "application/json", sent);
    const text = await response.text().catch((error: unknown) => {
      throw sent.signal?.aborted ? error : unreachable(error);
    });
    try {
      const answer: unknown = JSON.parse(text);
      if (typeof answer === "object" && answer !== null) return answer as Answer;
    } catch {
      // Told below.
    }
    throw this.#notUnderstood(response);
  }

  /** Return the `data` of an answer. Raise `Failure`. */
  async data<Data>(path: string, sent: Sent = {}): Promise<Data> {
    return (await this.json<{ data: Data }>(path, sent)).data;
  }

  /** Yield the events of a stream until the server closes it. Raise `Failure`. */
  async *events(path: string, signal: AbortSignal): AsyncGenerator<{ name: string; data: unknown }, void, undefined> {
    const response = await this.#open(path, "text/event-stream", { signal });
    if (!response.headers.get("Content-Type")?.startsWith("text/event-stream")) throw this.#notUnderstood(response);
    try {
      for await (const { type, data } of parseSseStream(response, LARGEST_EVENT)) {
        const told = JSON.parse(data) as { retryable?: boolean };
        if (type === "error") throw failureOf(told.retryable ? 503 : 400, told);
        yield { name: type, data: told };
      }
    } catch (error) {
      throw signal.aborted || error instanceof Failure ? error : this.#notUnderstood(response, error);
    }
  }

  #notUnderstood({ status }: Response, cause?: unknown): NotUnderstood {
    return new NotUnderstood(`${this.#root.href} answered with something else than taskplane does.`, {
      reason: "NOT_TASKPLANE",
      status,
      suggestion: "Another program answers there, such as the sign-in page of a proxy.",
      cause,
    });
  }

  async #open(path: string, accept: string, { method = "GET", body, headers, signal }: Sent): Promise<Response> {
    const response = await this.#fetch(new URL(path, this.#root), {
      method,
      headers: {
        ...this.#headers,
        Accept: accept,
        ...(body !== undefined && { "Content-Type": "application/json" }),
        ...headers,
      },
      body: body === undefined ? null : JSON.stringify(body),
      cache: "no-store",
      signal: signal ?? null,
    });
    if (response.ok) return response;
    const told: unknown = await response.json().catch(() => undefined);
    throw failureOf(response.status, told, { retryAfter: Number(response.headers.get("Retry-After")) || 0 });
  }
}
