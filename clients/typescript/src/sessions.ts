/** The sessions of a server: its routes under `/api/sessions`. */

import { closed } from "./calls.ts";
import { Missing, Unreachable } from "./failures.ts";
import { Http, type Server } from "./http.ts";
import { Pauses } from "./pauses.ts";
import { newKey } from "./resuming.ts";

/** JSON of A2A 0.3, or of a route. */
export type Json = Readonly<Record<string, unknown>>;

/** A session of the caller. `updatedAt`: RFC 3339; a change of a task counts. */
export interface Session {
  readonly id: string;
  readonly title: string;
  readonly agent: string;
  /** The number of its changes. */
  readonly version: number;
  readonly updatedAt: string;
}

/** A task of a session in short form. Times are RFC 3339. */
export interface TaskInfo {
  readonly taskId: string;
  readonly state: "pending" | "working" | "completed" | "failed" | "cancelled";
  readonly agent: string;
  readonly createdAt: string;
  readonly updatedAt: string;
  readonly completedAt?: string;
  readonly paused?: boolean;
  readonly rejected?: boolean;
  readonly error?: string;
  readonly errorCode?: string;
  readonly superseded?: boolean;
  readonly changes: readonly Json[];
}

/** A session after a change of its history. */
export interface Rewound {
  readonly session: Json;
  readonly version: number;
  /** The effective history, messages of A2A 0.3. */
  readonly messages: readonly Json[];
}

/** An entry of the log of a session. */
export interface Entry {
  readonly entryId: string;
  readonly kind: "message" | "outcome" | "event" | "rewind" | "undo" | "pushed" | "void";
  readonly invocationId: string;
  readonly version: number;
  readonly taskId?: string;
  readonly message?: Json;
  readonly takenBack?: boolean;
}

interface Page {
  readonly data?: readonly Session[];
  readonly next_page_token?: string;
}

interface Changes {
  readonly snapshot: { readonly version: number; readonly tasks: readonly TaskInfo[] };
  readonly "task-received": TaskInfo;
  readonly "task-state-changed": TaskInfo;
  readonly "task-updated": TaskInfo;
  readonly "task-removed": { readonly taskId: string };
  readonly "entry-added": Entry;
  readonly rewound: { readonly version: number; readonly cut: readonly string[] };
}

/** A change of a session. `rejoined`: it is the snapshot with which a stream that broke goes on. */
export type Change = { [Name in keyof Changes]: { readonly name: Name; readonly data: Changes[Name]; readonly rejoined: boolean } }[keyof Changes];

/** Options of each call. */
export interface CallOptions {
  readonly signal?: AbortSignal;
}

/** The sessions of one server. Every method raises `Failure`, or the reason of its signal. */
export class Sessions {
  readonly #http: Http;
  readonly #giveUpAfter: number | undefined;

  /** `giveUpAfter`: seconds without any success after which a change or a watch raises `Unreachable`; 60 by default. */
  constructor({ giveUpAfter, ...server }: Server & { readonly giveUpAfter?: number }) {
    this.#http = new Http(server);
    this.#giveUpAfter = giveUpAfter;
  }

  /** Return the caller's sessions, newest update first, at most `limit`, with `search` in their titles in any case. */
  async find({ search = "", limit = Infinity, signal }: CallOptions & { readonly search?: string; readonly limit?: number } = {}): Promise<Session[]> {
    const found: Session[] = [];
    let token: string | undefined = "";
    while (token !== undefined && found.length < limit) {
      const query: string = queryOf({ limit: String(Math.min(1_000, limit - found.length)), q: search, page_token: token });
      const page: Page = await this.#http.json<Page>(`api/sessions${query}`, { signal });
      found.push(...(page.data ?? []));
      token = page.next_page_token || undefined;
    }
    return found;
  }

  /** Return a session. Raise `Missing`. */
  async get(id: string, { signal }: CallOptions = {}): Promise<Session> {
    return (await this.#http.data<{ session: Session }>(`${pathOf(id)}?limit=1`, { signal })).session;
  }

  /** Return the tasks of a session in short form, oldest first. Raise `Missing`. */
  async taskInfos(id: string, { signal }: CallOptions = {}): Promise<TaskInfo[]> {
    return (await this.#http.data<TaskInfo[] | null>(`${pathOf(id)}/task-infos`, { signal })) ?? [];
  }

  /** Return the messages that a session shows, oldest first, of A2A 0.3. Raise `Missing`. */
  async messages(id: string, { signal }: CallOptions = {}): Promise<Json[]> {
    const said: Json[][] = [];
    let before: string | null = "";
    do {
      const query = queryOf({ limit: "1000", before });
      const page: { messages: Json[]; before: string | null } = await this.#http.data(`${pathOf(id)}/messages${query}`, { signal });
      said.unshift(page.messages);
      before = page.before;
    } while (before);
    return said.flat();
  }

  /** Return the effective history: what an agent reads as the conversation so far. Raise `Missing`. */
  effectiveHistory(id: string, { signal }: CallOptions = {}): Promise<Omit<Rewound, "session">> {
    return this.#http.data(`${pathOf(id)}/effective_history`, { signal });
  }

  /** Change the title of a session. Raise `Missing`. */
  async rename(id: string, title: string, { signal }: CallOptions = {}): Promise<void> {
    await this.#http.json(pathOf(id), { method: "PATCH", body: { name: title }, signal });
  }

  /** Delete a session with its tasks. Raise `Missing`. */
  async delete(id: string, { signal }: CallOptions = {}): Promise<void> {
    await this.#http.json(pathOf(id), { method: "DELETE", signal });
  }

  /** Cut a turn and all after it, with one effect however often it is sent. Raise `Missing`; `Declined` if another writer was faster. */
  rewind(id: string, before: string, options: CallOptions = {}): Promise<Rewound> {
    return this.#once(`${pathOf(id)}/rewind`, { before }, options);
  }

  /** Undo the newest rewind, with one effect however often it is sent. Raise `Declined` `NOTHING_TO_UNDO`, `TOO_LATE_TO_UNDO`. */
  undoRewind(id: string, options: CallOptions = {}): Promise<Rewound> {
    return this.#once(`${pathOf(id)}/undo_rewind`, {}, options);
  }

  /** Create a session with the effective history, or its part before a turn. Raise `Missing`. */
  fork(id: string, { before, title, ...options }: CallOptions & { readonly before?: string; readonly title?: string } = {}): Promise<Json> {
    return this.#once(`${pathOf(id)}/fork`, { id: newKey(), ...(before && { before }), ...(title && { name: title }) }, options);
  }

  /** Yield a snapshot and the changes of a session until it is deleted, reconnecting with a new snapshot. Raise `Missing`. */
  async *watch(id: string, { signal }: CallOptions = {}): AsyncGenerator<Change, void, undefined> {
    const pauses = new Pauses(this.#giveUpAfter, signal);
    let seen = false;
    for (;;) {
      const ends = new AbortController();
      const both = signal ? AbortSignal.any([signal, ends.signal]) : ends.signal;
      let rejoined = seen;
      let lost = closed();
      try {
        for await (const { name, data } of this.#http.events(`${pathOf(id)}/watch`, both)) {
          pauses.reset();
          seen = true;
          yield { name, data, rejoined } as Change;
          rejoined = false;
        }
      } catch (error) {
        signal?.throwIfAborted();
        if (error instanceof Missing && seen) return;
        if (!(error instanceof Unreachable)) throw error;
        lost = error;
      } finally {
        ends.abort();
      }
      await pauses.wait(lost);
    }
  }

  /** Make a call under one idempotency key, repeated while the server cannot be reached. */
  async #once<Data>(path: string, body: Json, { signal }: CallOptions): Promise<Data> {
    const pauses = new Pauses(this.#giveUpAfter, signal);
    const sent = { method: "POST", body, headers: { "Idempotency-Key": newKey() }, signal } as const;
    for (;;) {
      try {
        return await this.#http.data<Data>(path, sent);
      } catch (error) {
        if (!(error instanceof Unreachable)) throw error;
        await pauses.wait(error);
      }
    }
  }
}

function pathOf(id: string): string {
  return `api/sessions/${encodeURIComponent(id)}`;
}

function queryOf(given: Readonly<Record<string, string>>): string {
  return `?${new URLSearchParams(Object.entries(given).filter(([, value]) => value))}`;
}
