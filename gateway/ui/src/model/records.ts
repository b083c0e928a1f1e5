/** What came and was sent, for the inspector: the newest ones, as they were on the wire, without credentials. */

import type { Event } from "./events";
import type { WireRecord } from "./view";

const KEPT = 10_000;

export class Records {
  /** How many there were, with those that are not kept. */
  total = 0;
  #kept: WireRecord[] = [];
  readonly #now: () => number;

  constructor(now: () => number) {
    this.#now = now;
  }

  /** Return the newest ones, oldest first. */
  get list(): readonly WireRecord[] {
    return this.#kept;
  }

  add(direction: WireRecord["direction"], kind: string, body: unknown, at: Partial<WireRecord> = {}): WireRecord {
    const record = { taskId: "", messageId: "", cursor: "", ...at, number: ++this.total, at: this.#now(), direction, kind, body };
    if (this.#kept.length >= 2 * KEPT) this.#kept = this.#kept.slice(-KEPT);
    this.#kept.push(record);
    return record;
  }
}

/** Return which task and message an event is about. */
export function about(event: Event): { taskId: string; messageId: string } {
  if (event.kind === "task") return { taskId: event.id, messageId: event.message?.id ?? "" };
  if (event.kind === "status-update") return { taskId: event.taskId, messageId: event.message?.id ?? "" };
  if (event.kind === "artifact-update") return { taskId: event.taskId, messageId: "" };
  return event.kind === "message" ? { taskId: event.message.taskId, messageId: event.message.id } : { taskId: "", messageId: "" };
}
