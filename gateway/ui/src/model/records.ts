/** What came and was sent, for the inspector: the newest ones, as they were on the wire, without credentials. */

import { signal } from "@preact/signals-core";
import type { Event } from "./events";
import type { WireRecord } from "./view";

const KEPT = 10_000;

export class Records {
  /** How many there were, with those that are not kept. */
  readonly total = signal(0);
  /** The newest ones, oldest first. */
  list: WireRecord[] = [];

  add(direction: WireRecord["direction"], kind: string, body: unknown, about: Partial<WireRecord> = {}): void {
    const number = this.total.peek() + 1;
    if (this.list.length >= 2 * KEPT) this.list = this.list.slice(-KEPT);
    this.list.push({ taskId: "", messageId: "", cursor: "", ...about, number, at: Date.now(), direction, kind, body });
    this.total.value = number;
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
