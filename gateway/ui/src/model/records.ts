/** What came and was sent, for the inspector: the newest ones, as they were on the wire, without credentials. */

import type { Event } from "./events";
import type { WireRecord } from "./view";

const KEPT = 10_000;

export class Records {
  /** How many there were, with those that are not kept. */
  total = 0;
  /** The newest ones, oldest first. */
  list: WireRecord[] = [];
  readonly listeners = new Set<(record: WireRecord) => void>();

  constructor(private readonly now: () => number) {}

  add(direction: WireRecord["direction"], kind: string, body: unknown, about: Partial<WireRecord> = {}): void {
    const place = { number: ++this.total, at: this.now(), direction, kind, body };
    const record = { taskId: "", messageId: "", cursor: "", ...about, ...place };
    if (this.list.length >= 2 * KEPT) this.list = this.list.slice(-KEPT);
    this.list.push(record);
    for (const listener of this.listeners) listener(record);
  }
}

/** Return which task and message an event is about. */
export function about(event: Event): { taskId: string; messageId: string } {
  switch (event.kind) {
    case "task":
      return { taskId: event.id, messageId: event.message?.id ?? "" };
    case "status-update":
      return { taskId: event.taskId, messageId: event.message?.id ?? "" };
    case "message":
      return { taskId: event.message.taskId, messageId: event.message.id };
    default:
      return { taskId: event.kind === "unknown" ? "" : event.taskId, messageId: "" };
  }
}
