/** What the inspector shows: records of this client or of a task's log, found by kind and by words. */

import type { LogEvent } from "./api";
import { classify } from "./events";
import { object, text } from "./json";
import type { Part, WireRecord } from "./view";

/** The records that match; each is looked at once. */
export class Sieve {
  /** Oldest first. */
  readonly rows: WireRecord[] = [];
  /** How many there were of each kind, whether they match or not. */
  readonly counts = new Map<string, number>();
  #last = 0;

  /** Match records of a kind and with words in their JSON; empty ones match all. */
  constructor(private readonly kind = "", private readonly words = "") {}

  /** Take what is new in a list that grows at its end and may be shortened at its beginning. */
  take(all: readonly WireRecord[]): void {
    const oldest = all[0]?.number ?? 0;
    const gone = this.rows.findIndex(({ number }) => number >= oldest);
    if (gone > 0) this.rows.splice(0, gone);
    for (const record of all.slice(all.findLastIndex(({ number }) => number <= this.#last) + 1)) {
      this.#last = record.number;
      this.counts.set(record.kind, (this.counts.get(record.kind) ?? 0) + 1);
      if ((!this.kind || record.kind === this.kind) && this.#has(record)) this.rows.push(record);
    }
  }

  #has({ taskId, messageId, body }: WireRecord): boolean {
    return !this.words || `${taskId} ${messageId} ${JSON.stringify(body)}`.toLowerCase().includes(this.words.toLowerCase());
  }
}

/** Return an event of a task's log as a record. */
export function logged(taskId: string, event: LogEvent): WireRecord {
  const { cursor = "", generation, time, kind } = event;
  const { messageId } = classify(event.event);
  return { number: generation, at: Date.parse(time), direction: "received", kind, taskId, messageId, cursor, body: event };
}

/** Return the most telling words of a record, on one line. */
export function gist({ body }: Pick<WireRecord, "body">): string {
  const outer = object(body) ?? {};
  const event = classify(object(outer["event"]) ?? object(outer["params"]) ?? body);
  const message = said(event.message?.parts);
  const named = text(outer, "method") || text(outer, "code");
  if (named) return `${named} ${message || text(outer, "message")}`;
  const [artifact] = event.artifacts;
  const words = ["state", "kind", "actor"].map((key) => text(outer, key)).filter(Boolean);
  return {
    task: () => `${text(outer, "state") || event.state} ${event.history.at(-1)?.text ?? ""}`,
    "status-update": () => `${event.state} ${message}`,
    "artifact-update": () => `${event.append ? "+ " : ""}${artifact?.name || artifact?.id} ${said(artifact?.parts)}`,
    message: () => message,
    unknown: () => words.join(" ") || JSON.stringify(body).slice(0, 200),
  }[event.kind]();
}

/** Return what parts say, in one line: texts, names of files, and data as JSON. */
function said(parts: readonly Part[] = []): string {
  const words = parts.map((part) => part.text ?? part.filename ?? (part.data === undefined ? "" : JSON.stringify(part.data)));
  return words.join(" ").slice(0, 200);
}
