/**
 * What a browser keeps for the user: drafts, the theme, a key, and which session was open last with its tasks. It is a
 * cache only; the server knows better. Storage may be missing, blocked, full or written by an older page (M10).
 */

import { attempt, parsed, text } from "./json";
import { type TaskInfo, readTaskInfos } from "./tasks";

const LAST = "taskplane.session";

/** The session that was open last. */
type LastSession = Readonly<{ contextId: string; agentEndpoint: string; tasks: readonly TaskInfo[] }>;

export class Stored {
  /** What storage did not take, for as long as the page lives. */
  readonly #kept = new Map<string, string>();

  /** `storage` may throw, as a blocked `localStorage` does when it is named. */
  constructor(private readonly storage: () => Storage) {}

  /** Return what is kept under a key; empty without. */
  get(key: string): string {
    return attempt(() => this.#kept.get(key) ?? this.storage().getItem(key), null) ?? "";
  }

  /** Keep a value under a key; an empty one: nothing. */
  set(key: string, value: string): void {
    this.#kept.set(key, value);
    attempt(() => {
      if (value) this.storage().setItem(key, value);
      else this.storage().removeItem(key);
      this.#kept.delete(key);
    }, undefined);
  }

  /** Forget everything whose key begins with one of some texts. */
  forget(...beginnings: readonly string[]): void {
    const ours = (key: string): boolean => beginnings.some((one) => key.startsWith(one));
    const stored = attempt(() => Object.keys(this.storage()), []);
    for (const key of [...this.#kept.keys(), ...stored].filter(ours)) this.set(key, "");
  }

  /**
   * Return the session that was open last; null if there is none, or it cannot be read. A client that knew a single task per
   * session stored its `taskId` and `state` in the session.
   */
  last(): LastSession | null {
    const body = parsed(this.get(LAST));
    const contextId = text(body, "contextId");
    if (!contextId) return null;
    return { contextId, agentEndpoint: text(body, "agentEndpoint"), tasks: readTaskInfos(body["tasks"] ?? [body]) };
  }

  /** Keep a session as the one that was open last. */
  keepLast(last: LastSession): void {
    this.set(LAST, JSON.stringify({ ...last, tasks: last.tasks.map(({ id, ...task }) => ({ taskId: id, ...task })) }));
  }
}
