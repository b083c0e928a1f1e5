/** A stream that survives broken connections: it is opened again after its last event, after growing pauses. */

import { failureOf } from "./failures";
import type { SseEvent } from "./http";
import type { Failure } from "./view";

export interface Resumable {
  /** Open the stream after a place; empty: from wherever the server begins. */
  open(cursor: string): AsyncIterable<SseEvent>;
  /** Take an event; return true if it was the last one that is wanted. */
  take(event: SseEvent): boolean | Promise<boolean>;
  /** The server ended the stream without the last event; return whether nothing more will come. */
  ended(): Promise<boolean>;
  /** The connection was lost; it is tried again after a pause. */
  lost?(failure: Failure): void;
}

const PAUSES = { first: 250, most: 5_000 };
/** Milliseconds before the first and at most before each further attempt. */
export type Pauses = typeof PAUSES;

/**
 * Read a stream from a place until its last event, or until `signal` is aborted. Raise Failed if the server refuses in a
 * way that a repetition does not change.
 */
export async function follow(stream: Resumable, cursor: string, signal: AbortSignal, pauses = PAUSES): Promise<void> {
  let attempts = 0;
  while (!signal.aborted) {
    let wait = 0;
    try {
      for await (const event of stream.open(cursor)) {
        if (signal.aborted) return;
        attempts = 0;
        cursor = event.id || cursor;
        if (await stream.take(event)) return;
      }
      if (signal.aborted || (await stream.ended())) return;
    } catch (error) {
      if (signal.aborted) return;
      const failure = failureOf(error);
      if (!failure.retryable) throw error;
      wait = failure.retryAfter * 1_000;
      stream.lost?.(failure);
    }
    const pause = Math.min(pauses.most, pauses.first * 2 ** attempts++) * (0.5 + Math.random() / 2);
    await sleep(Math.max(wait, pause), signal);
  }
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
