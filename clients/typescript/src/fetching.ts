/** A fetch that notices what the official client does not tell: silence, and the status of an answer. */

import { Unreachable, unreachable } from "./failures.ts";

/** Seconds of silence after which a stream is dead: the server sends at least a comment every 3. */
export const STREAM_SILENCE = 45;

/** What is known of the answer to a call. */
export interface Answer {
  readonly status: number;
  /** Seconds that the server asked to wait; 0: it did not. */
  readonly retryAfter: number;
  /** When its headers came, in milliseconds of `performance.now()`. */
  readonly at: number;
  /** When its last byte so far came. */
  heard: number;
}

type Bytes = ReadableStream<Uint8Array<ArrayBuffer>>;

const answers = new WeakMap<AbortSignal, Answer>();

/** Return the answer to the call with this signal; undefined if there was none, or another fetch was used. */
export function answerOf(signal: AbortSignal): Answer | undefined {
  return answers.get(signal);
}

/**
 * Return a fetch for the transports of the official client (`fetchImpl`). With it `stream`, `resume` and `send` know every
 * HTTP status, so that only what may succeed later is repeated. A connection that fails, or a stream that is silent for
 * `silence` seconds, is an `Unreachable`. `base`: the fetch that is called, for example one that adds credentials.
 */
export function steadyFetch(base: typeof fetch = fetch, silence = STREAM_SILENCE): typeof fetch {
  return async (input, init) => {
    const signal = init?.signal;
    const response = await base(input, init).catch((error: unknown) => lost(error, signal));
    const retryAfter = Number(response.headers.get("Retry-After")) || 0;
    const now = performance.now();
    const answer: Answer = { status: response.status, retryAfter, at: now, heard: now };
    if (signal) answers.set(signal, answer);
    const streams = response.headers.get("Content-Type")?.startsWith("text/event-stream");
    return streams && response.body ? new Response(steady(response.body, answer, silence, signal), response) : response;
  };
}

function steady(body: Bytes, answer: Answer, silence: number, signal: AbortSignal | null | undefined): Bytes {
  const reader = body.getReader();
  return new ReadableStream({
    async pull(controller) {
      let timer: ReturnType<typeof setTimeout> | undefined;
      const silent = new Promise<never>((_, reject) => {
        const dead = new Unreachable("The server has been silent for too long.", { reason: "SILENT" });
        timer = setTimeout(() => reject(dead), silence * 1_000);
      });
      try {
        const { done, value } = await Promise.race([reader.read(), silent]);
        answer.heard = performance.now();
        if (done) controller.close();
        else controller.enqueue(value);
      } catch (error) {
        reader.cancel().catch(() => undefined);
        lost(error, signal);
      } finally {
        clearTimeout(timer);
      }
    },
    cancel: (reason) => reader.cancel(reason),
  });
}

/** Raise an error of the connection as `Unreachable`, unless the caller has ended the call. */
function lost(error: unknown, signal: AbortSignal | null | undefined): never {
  throw signal?.aborted ? error : unreachable(error);
}
