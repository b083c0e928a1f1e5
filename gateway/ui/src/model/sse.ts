/** Reading server-sent events of a response of `fetch`. */

import { createParser } from "eventsource-parser";
import { Failed } from "./failures";

export interface SseEvent {
  /** Empty for an event without an id. */
  readonly id: string;
  /** Empty for an event without a name. */
  readonly name: string;
  readonly data: string;
}

/** Milliseconds without a byte after which a connection counts as dead: the server says something every 3 s. */
export const IDLE_LIMIT = 45_000;

/** Yield the events of a stream until it ends. Raise Failed `TIMED_OUT` after `idle` ms without a byte. */
export async function* readEvents(body: ReadableStream<Uint8Array>, idle = IDLE_LIMIT): AsyncGenerator<SseEvent> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let parsed: SseEvent[] = [];
  const parser = createParser({
    onEvent: ({ id = "", event = "", data }) => parsed.push({ id, name: event, data }),
  });
  try {
    for (;;) {
      const { done, value } = await within(reader.read(), idle);
      if (done) return;
      parser.feed(decoder.decode(value, { stream: true }));
      const events = parsed;
      parsed = [];
      yield* events;
    }
  } finally {
    reader.cancel().catch(() => undefined);
  }
}

async function within<Value>(work: Promise<Value>, milliseconds: number): Promise<Value> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<never>((_, reject) => {
    const failure = { code: "TIMED_OUT", message: "Nothing was received for too long.", retryable: true };
    timer = setTimeout(() => reject(new Failed(failure)), milliseconds);
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
  }
}
