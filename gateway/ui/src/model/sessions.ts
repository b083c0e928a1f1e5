/** The list of the caller's sessions: pages, search, and changes that other tabs make. */

import type { Api, SessionRow } from "./api";
import { failureOf } from "./failures";
import { object } from "./json";
import type { Channel } from "./session";
import type { Failure, SessionView } from "./view";

const UNDO = 10_000;

export class SessionList {
  rows: readonly SessionRow[] = [];
  query = "";
  hasMore = false;
  loading = false;
  failure: Failure | null = null;
  readonly #api: Api;
  readonly #channel: Channel | undefined;
  readonly #listeners = new Set<() => void>();
  readonly #leaving = new Map<string, ReturnType<typeof setTimeout>>();
  #found: readonly SessionRow[] = [];
  #next = "";
  #asked = 0;

  constructor(api: Api, channel?: Channel) {
    this.#api = api;
    this.#channel = channel;
    channel?.addEventListener("message", (event) => {
      if (object(event.data)) void this.load();
    });
  }

  onChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Read the first pages again, as many rows as are shown. */
  async load(): Promise<void> {
    await this.#page("", Math.min(1_000, Math.max(50, this.#found.length)), () => []);
  }

  /** Read the next page. */
  async more(): Promise<void> {
    if (this.#next && !this.loading) await this.#page(this.#next, 50, () => this.#found);
  }

  /** Show the sessions whose title contains a text. */
  async search(query: string): Promise<void> {
    this.query = query;
    await this.load();
  }

  async rename(id: string, title: string): Promise<Failure | null> {
    const before = this.#found;
    this.#show(before.map((row) => (row.id === id ? { ...row, title } : row)));
    try {
      await this.#api.rename(id, title);
      this.#channel?.postMessage({ session: id, what: "rename" });
      return null;
    } catch (error) {
      this.#show(before);
      return failureOf(error);
    }
  }

  /** Remove a session from the list, and delete it after 10 s. Return how to take that back until then. */
  remove(id: string, failed: (failure: Failure) => void = () => undefined): () => void {
    const finish = async (): Promise<void> => {
      this.#leaving.delete(id);
      this.#found = this.#found.filter((row) => row.id !== id);
      try {
        await this.#api.deleteSession(id);
        this.#channel?.postMessage({ session: id, what: "delete" });
      } catch (error) {
        failed(failureOf(error));
        await this.load();
      }
    };
    clearTimeout(this.#leaving.get(id));
    this.#leaving.set(id, setTimeout(() => void finish(), UNDO));
    this.#show(this.#found);
    return () => {
      clearTimeout(this.#leaving.get(id));
      this.#leaving.delete(id);
      this.#show(this.#found);
    };
  }

  /** Take what an open session of this tab shows; read the list if it is not in it. */
  note(view: SessionView): void {
    const latest = view.tasks.at(-1);
    const row = this.#found.find(({ id }) => id === view.id);
    if (!view.id || this.query || view.status !== "ready") return;
    if (!row) {
      if (!this.loading) void this.load();
      return;
    }
    const lastState = latest?.state ?? row.lastState;
    const changed = { ...row, title: view.title || row.title, lastState, paused: view.paused !== null, taskCount: view.tasks.length };
    if (JSON.stringify(changed) === JSON.stringify(row)) return;
    const others = this.#found.filter((other) => other !== row);
    this.#show(lastState === row.lastState ? this.#found.map((other) => (other === row ? changed : other)) : [changed, ...others]);
  }

  async #page(token: string, limit: number, before: () => readonly SessionRow[]): Promise<void> {
    const asked = ++this.#asked;
    this.loading = true;
    try {
      const page = await this.#api.sessions({ q: this.query, pageToken: token, limit });
      if (asked !== this.#asked) return;
      this.#next = page.next;
      this.hasMore = page.next !== "";
      this.failure = null;
      const known = before();
      const ids = new Set(known.map((row) => row.id));
      this.#show([...known, ...page.rows.filter((row) => !ids.has(row.id))]);
    } catch (error) {
      if (asked === this.#asked) this.failure = failureOf(error);
    } finally {
      if (asked === this.#asked) this.loading = false;
      this.#tell();
    }
  }

  #show(found: readonly SessionRow[]): void {
    this.#found = found;
    this.rows = found.filter((row) => !this.#leaving.has(row.id));
    this.#tell();
  }

  #tell(): void {
    for (const listener of this.#listeners) listener();
  }
}
