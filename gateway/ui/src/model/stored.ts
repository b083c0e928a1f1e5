/**
 * What a browser keeps for the user: drafts, and which session was open last with its tasks. It is a cache only; the
 * server knows better. Storage may be missing, blocked, full or written by an older page (M10).
 */

import { object, text } from "./json";
import { readTasks } from "./tasks";
import type { TaskInfo } from "./view";

const DRAFT = "taskplane.draft.";
const LAST = "taskplane.session";

export interface LastSession {
  readonly contextId: string;
  readonly agentEndpoint: string;
  readonly tasks: readonly TaskInfo[];
}

export class Stored {
  readonly #storage: () => Storage;
  /** What storage did not take, for as long as the page lives. */
  readonly #kept = new Map<string, string>();

  /** `storage` may throw, as a blocked `localStorage` does when it is named. */
  constructor(storage: () => Storage) {
    this.#storage = storage;
  }

  /** Return the draft of a session; of a new one for an empty id. */
  draft(session: string): string {
    return this.#get(DRAFT + session);
  }

  keepDraft(session: string, draft: string): void {
    this.#set(DRAFT + session, draft);
  }

  /** Return the session that was open last; null if there is none, or it cannot be read. */
  last(): LastSession | null {
    try {
      const body = object(JSON.parse(this.#get(LAST) || "null"));
      const contextId = text(body ?? {}, "contextId");
      return contextId ? { contextId, agentEndpoint: text(body ?? {}, "agentEndpoint"), tasks: readTasks(body) } : null;
    } catch {
      return null;
    }
  }

  keepLast({ contextId, agentEndpoint, tasks }: LastSession): void {
    const infos = tasks.map(({ id, ...task }) => ({ taskId: id, ...task }));
    this.#set(LAST, JSON.stringify({ contextId, agentEndpoint, tasks: infos }));
  }

  #get(key: string): string {
    try {
      return this.#kept.get(key) ?? this.#storage().getItem(key) ?? "";
    } catch {
      return "";
    }
  }

  #set(key: string, value: string): void {
    try {
      if (value) this.#storage().setItem(key, value);
      else this.#storage().removeItem(key);
      this.#kept.delete(key);
    } catch {
      this.#kept.set(key, value);
    }
  }
}
