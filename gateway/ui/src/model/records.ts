/** Records of the inspector: what came and was sent, as it was on the wire, without credentials, or the log of a task. */

import { type Part, classify, unknownIn } from "./events";
import { object, text } from "./json";

const KEPT = 10_000;
const NOTHING = {
  number: 0, at: 0, direction: "sent" as "sent" | "received", kind: "", taskId: "", messageId: "", cursor: "", body: null as unknown,
  unknown: 0,
};
/**
 * One thing that came or was sent, as it was on the wire. `at` is the time of this client, in ms since 1970; `kind` is `task`,
 * `status-update`, `artifact-update`, `message`, `unknown`, `request`, `response` or `error`; `cursor` the id of its event;
 * `unknown` how much in it has a form that this page does not know.
 */
export type WireRecord = Readonly<typeof NOTHING>;

/** The kind of records with something of a form that this page does not know, beside their own kind. */
export const UNKNOWN = "unknown";

/** The newest records. */
export class Records {
  /** How many there were, with those that are not kept. */
  total = 0;
  /** The newest ones, oldest first. */
  list: WireRecord[] = [];

  add(direction: WireRecord["direction"], kind: string, body: unknown, about: Partial<WireRecord> = {}): void {
    if (this.list.length >= 2 * KEPT) this.list = this.list.slice(-KEPT);
    this.keep({ ...NOTHING, ...about, number: this.total + 1, at: Date.now(), direction, kind, body });
  }

  /** Add a record as it is, such as one of a log, all of which are kept. */
  keep(record: WireRecord): void {
    this.list.push(record);
    this.total++;
  }
}

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
      const kinds = new Set([record.kind, ...(record.unknown ? [UNKNOWN] : [])]);
      for (const kind of kinds) this.counts.set(kind, (this.counts.get(kind) ?? 0) + 1);
      if ((!this.kind || kinds.has(this.kind)) && this.#has(record)) this.rows.push(record);
    }
  }

  #has({ taskId, messageId, body }: WireRecord): boolean {
    return !this.words || `${taskId} ${messageId} ${JSON.stringify(body)}`.toLowerCase().includes(this.words.toLowerCase());
  }
}

/**
 * An event of a task's log; `event` is null for kinds that show nothing. Its owner is told its `cursor`, and an operator its
 * `fence`.
 */
export type LogEvent = Readonly<Record<"generation" | "attempt", number> & Record<"time" | "actor" | "kind", string>> &
  Readonly<{ event: unknown; cursor?: string; fence?: number }>;

/** Return whether an event of a task's log has something that the agent said or made; progress and failures are neither. */
export function isOutput({ kind, event }: LogEvent): boolean {
  const { message, state } = classify(event);
  if (kind === "artifact") return true;
  return kind === "status" && message?.role === "agent" && message.parts.length > 0 && state !== "failed" && state !== "rejected";
}

/** Return an event of a task's log as a record. */
export function logged(taskId: string, event: LogEvent): WireRecord {
  const { cursor = "", generation, time, kind } = event;
  const found = classify(event.event);
  const unknown = event.event === null ? 0 : unknownIn(found);
  const { messageId } = found;
  return { number: generation, at: Date.parse(time), direction: "received", kind, taskId, messageId, cursor, body: event, unknown };
}

/** Return the most telling words of a record, on one line. */
export function gist({ body }: Pick<WireRecord, "body">): string {
  const outer = object(body) ?? {};
  const event = classify(object(outer["event"]) ?? object(outer["params"]) ?? body);
  const [artifact] = event.artifacts;
  const words = [
    text(outer, "method") || text(outer, "code") || text(outer, "state") || (event.state === "unknown" ? "" : event.state),
    artifact && `${event.append ? "+ " : ""}${artifact.name || artifact.id} ${said(artifact.parts)}`,
    said(event.message?.parts ?? event.history.at(-1)?.parts) || text(outer, "message"),
  ];
  const others = ["kind", "actor"].map((key) => text(outer, key));
  return [words, others].map((some) => some.filter(Boolean).join(" ")).find(Boolean) ?? JSON.stringify(body).slice(0, 200);
}

/** Return what parts say, in one line: texts, names of files, and data as JSON. */
function said(parts: readonly Part[] = []): string {
  const words = parts.map((part) => part.text ?? part.filename ?? (part.data === undefined ? "" : JSON.stringify(part.data)));
  return words.join(" ").slice(0, 200);
}
