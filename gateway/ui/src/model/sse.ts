/** Reading server-sent events of a response of `fetch`. */

import { type EventSourceMessage, createParser } from "eventsource-parser";
import { Failed } from "./failures";

/** An event of a stream; `event` is its name. */
export type SseEvent = EventSourceMessage;

/** Milliseconds without a byte after which a connection counts as dead: the server says something every 3 s. */
export const IDLE_LIMIT = 45_000;

/** Yield the events of a stream until it ends. Raise Failed `TIMED_OUT` after `idle` ms without a byte. */
export async function* readEvents(body: ReadableStream<Uint8Array>, idle = IDLE_LIMIT): AsyncGenerator<SseEvent> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  const events: SseEvent[] = [];
  const parser = createParser({ onEvent: (event) => events.push(event) });
  let silent = false;
  const leave = (): void => void reader.cancel().catch(() => undefined);
  const late = (): void => {
    silent = true;
    leave();
  };
  try {
    for (;;) {
      const timer = setTimeout(late, idle);
      const { done, value } = await reader.read().finally(() => clearTimeout(timer));
      if (silent) throw new Failed({ code: "TIMED_OUT", message: "Nothing was received for too long.", retryable: true });
      if (done) return;
      parser.feed(decoder.decode(value, { stream: true }));
      yield* events.splice(0);
    }
  } finally {
    leave();
  }
}
