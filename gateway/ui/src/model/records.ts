/** What came and was sent, for the inspector: the newest ones, as they were on the wire, without credentials. */

const KEPT = 10_000;
const NOTHING = { number: 0, at: 0, direction: "sent" as "sent" | "received", kind: "", taskId: "", messageId: "", cursor: "", body: null as unknown };
/**
 * One thing that came or was sent, as it was on the wire. `at` is the time of this client, in ms since 1970; `kind` is `task`,
 * `status-update`, `artifact-update`, `message`, `unknown`, `request`, `response` or `error`; `cursor` the id of its event.
 */
export type WireRecord = Readonly<typeof NOTHING>;

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
