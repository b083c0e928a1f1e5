/** The list of the caller's sessions: pages, search, and changes that other tabs make. */

import { computed, signal } from "@preact/signals-core";
import type { Api, SessionRow } from "./api";
import { failureOf } from "./http";
import type { SessionView } from "./followed";
import type { Failure } from "./view";

const UNDO = 10_000;
const PAGE = 50;
const TYPED = 150;

export class SessionList {
  readonly query = signal("");
  readonly loading = signal(false);
  readonly failure = signal<Failure | null>(null);
  /** The page after those that were read; empty: there is none. */
  readonly next = signal("");
  /** What is shown: without those that are to be deleted soon. */
  readonly rows = computed(() => this.#found.value.filter(({ id }) => !this.#leaving.value.has(id)));
  readonly #found = signal<readonly SessionRow[]>([]);
  /** Those that are to be deleted soon, each with what does it. */
  readonly #leaving = signal<ReadonlyMap<string, () => Promise<void>>>(new Map());
  #asked = 0;
  #typed: ReturnType<typeof setTimeout> | undefined;

  constructor(
    private readonly api: Api,
    private readonly channel?: BroadcastChannel,
  ) {
    channel?.addEventListener("message", ({ data }: MessageEvent<{ session?: string }>) => {
      this.keep(data.session ?? "");
      void this.load();
    });
  }

  /** Read the first pages again, as many rows as are shown. */
  load(): Promise<void> {
    return this.#page("", Math.min(1_000, Math.max(PAGE, this.#found.peek().length)));
  }

  /** Show none, until they are read again. */
  clear(): void {
    this.#found.value = [];
  }

  /** Read the next page. */
  async more(): Promise<void> {
    if (this.next.peek() && !this.loading.peek()) await this.#page(this.next.peek(), PAGE);
  }

  /** Show the sessions whose title contains a text, once nothing more is typed. */
  search(query: string): void {
    this.query.value = query;
    clearTimeout(this.#typed);
    this.#typed = setTimeout(() => void this.load(), TYPED);
  }

  /** Rename a session, at once in the list, which is read again then. Return why it was not done. */
  async rename(id: string, title: string): Promise<Failure | null> {
    const before = this.#found.peek().find((row) => row.id === id)?.title ?? "";
    this.#entitle(id, title);
    const failure = await this.api.rename(id, title).then(() => null, failureOf);
    if (failure) this.#entitle(id, before);
    void this.load();
    if (!failure) this.channel?.postMessage({ session: id });
    return failure;
  }

  /** Remove a session from the list, and delete it after 10 s, or when the page is left; unless another tab changes it. */
  remove(id: string, failed: (failure: Failure) => void): void {
    const finish = async (): Promise<void> => {
      const failure = await this.api.deleteSession(id).then(() => null, failureOf);
      const gone = !failure || failure.status === 404;
      if (gone) this.#found.value = this.#found.peek().filter((row) => row.id !== id);
      this.keep(id);
      if (gone) return this.channel?.postMessage({ session: id });
      void this.load();
      failed(failure);
    };
    this.#leaving.value = new Map(this.#leaving.peek()).set(id, finish);
    setTimeout(() => void (this.#leaving.peek().get(id) === finish && finish()), UNDO);
  }

  /** Take the removal of a session back; do nothing if it was not removed, or is deleted. */
  keep(id: string): void {
    this.#leaving.value = new Map([...this.#leaving.peek()].filter(([one]) => one !== id));
  }

  /** Delete at once what is to be deleted: the page is left. */
  leave(): void {
    for (const finish of this.#leaving.peek().values()) void finish();
  }

  /** Take what an open session of this tab shows; read the list if it is not in it. */
  note(view: SessionView): void {
    const found = this.#found.peek();
    const place = found.findIndex(({ id }) => id === view.id);
    const row = found[place];
    if (!view.id || this.query.peek() || view.status !== "ready") return;
    if (!row) return void (this.loading.peek() || this.load());
    const lastState = view.tasks.at(-1)?.state ?? row.lastState;
    const changed = { ...row, title: view.title || row.title, lastState, paused: view.paused !== null };
    if (JSON.stringify(changed) === JSON.stringify(row)) return;
    this.#found.value = found.toSpliced(place, 1).toSpliced(lastState === row.lastState ? place : 0, 0, changed);
  }

  #entitle(id: string, title: string): void {
    this.#found.value = this.#found.peek().map((row) => (row.id === id ? { ...row, title } : row));
  }

  async #page(pageToken: string, limit: number): Promise<void> {
    const asked = ++this.#asked;
    this.loading.value = true;
    const query = { q: this.query.peek().trim(), page_token: pageToken, limit: String(limit) };
    const answer = await this.api.sessions(query).catch(failureOf);
    if (asked !== this.#asked) return;
    this.loading.value = false;
    this.failure.value = "code" in answer ? answer : null;
    if ("code" in answer) return;
    const rows = pageToken ? [...this.#found.peek(), ...answer.rows] : answer.rows;
    this.#found.value = [...new Map(rows.map((row) => [row.id, row])).values()];
    this.next.value = answer.next;
  }
}
