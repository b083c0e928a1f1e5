/** The routes for operators, under `/api/ops`. */

import type { Http } from "./http";
import { object, objects, text } from "./json";

/** A count of what waits; `oldestSeconds` is null if nothing does. */
export interface Backlog {
  readonly count: number;
  readonly oldestSeconds: number | null;
}

export interface Percentiles {
  readonly p50: number;
  readonly p95: number;
}

export interface Minute {
  readonly at: string;
  readonly begun: number;
  readonly ended: number;
  readonly failed: number;
}

export interface Executor {
  readonly id: string;
  readonly alive: boolean;
  readonly agents: readonly string[];
  readonly leases: number;
  readonly running: number;
  readonly lastSeenSeconds: number;
}

export interface Overview {
  readonly at: string;
  readonly tasks: readonly { readonly agent: string; readonly state: string; readonly paused?: boolean; readonly count: number }[];
  readonly queue: readonly { readonly agent: string; readonly queued: number; readonly oldestSeconds: number }[];
  readonly executors: readonly Executor[];
  readonly uncopied: Backlog;
  readonly abandoned: Backlog;
  readonly recent: {
    readonly minutes: number;
    readonly since: string;
    readonly begun: number;
    readonly ended: number;
    readonly failed: number;
    readonly perMinute: readonly Minute[];
    readonly durationSeconds: Percentiles | null;
    readonly queuedSeconds: Percentiles | null;
  };
  readonly bounded: boolean;
}

export interface OpsTask {
  readonly taskId: string;
  readonly contextId: string;
  readonly owner: string;
  readonly agent: string;
  readonly state: string;
  readonly paused?: boolean;
  readonly createdAt: string;
  readonly updatedAt: string;
  readonly statusAt: string;
  readonly completedAt?: string;
  readonly generation: number;
  readonly attempt: number;
  readonly maxAttempts: number;
  readonly fence: number;
  readonly executor?: string;
  readonly leaseExpiresAt?: string;
  readonly queuedAt?: string;
  readonly error?: string;
  readonly copied: boolean;
  readonly superseded?: boolean;
  readonly document?: boolean;
}

export interface OpsEvent {
  readonly generation: number;
  readonly time: string;
  readonly attempt: number;
  readonly fence: number;
  readonly actor: string;
  readonly kind: string;
  readonly event: unknown;
  readonly traceId?: string;
}

export interface OpsQuery {
  readonly state?: string;
  readonly agent?: string;
  readonly owner?: string;
  readonly executor?: string;
  readonly error?: boolean;
}

/** A page of a log; `next`: the generation after which it goes on, 0 at its end. */
export interface LogPage {
  readonly events: readonly OpsEvent[];
  readonly next: number;
}

const PAGE = 100;

export class OpsApi {
  constructor(private readonly http: Http) {}

  async overview(): Promise<Overview> {
    return (await this.#data("api/ops/overview")) as Overview;
  }

  /** Return so many pages of tasks, newest change of state first, and whether there may be more. */
  async tasks(query: OpsQuery = {}, pages = 1): Promise<{ tasks: OpsTask[]; more: boolean }> {
    const { state = "", agent = "", owner = "", executor = "", error = false } = query;
    const values = Object.entries({ state, agent, owner, executor, error: error ? "1" : "" }).filter(([, value]) => value);
    const tasks: OpsTask[] = [];
    let token = "";
    for (let page = 0; page < pages; page++) {
      const search = new URLSearchParams([...values, ["limit", String(PAGE)], ...(token ? [["page_token", token]] : [])]);
      const body = object((await this.http.json(`api/ops/tasks?${search}`)).data) ?? {};
      tasks.push(...(objects(body["data"]) as unknown as OpsTask[]));
      token = text(body, "next_page_token");
      if (!token) break;
    }
    return { tasks, more: token !== "" };
  }

  /** Return a task with its first event, and whether its lease has run out by the clock of the server. */
  async task(id: string): Promise<OpsTask & { readonly first: OpsEvent | null; readonly lapsed: boolean }> {
    const { data, headers } = await this.http.json(path(id));
    const found = object(object(data)?.["data"]) ?? {};
    const task = found["task"] as OpsTask;
    const now = Date.parse(headers.get("Date") ?? "") || Date.now();
    return { ...task, first: (objects(found["events"])[0] as OpsEvent | undefined) ?? null, lapsed: Date.parse(task.leaseExpiresAt ?? "") < now };
  }

  /** Return the events of a task after a generation, oldest first. */
  async events(id: string, after: number, limit: number): Promise<LogPage> {
    const body = object(await this.#data(`${path(id)}/events?after=${after}&limit=${limit}`)) ?? {};
    return { events: objects(body["events"]) as unknown as OpsEvent[], next: Number(body["next_after"] ?? 0) };
  }

  /** Cancel a task and return it. */
  async cancel(id: string): Promise<OpsTask> {
    return object((await this.http.json(`${path(id)}/cancel`, { method: "POST", body: {} })).data)?.["data"] as OpsTask;
  }

  async delete(id: string): Promise<void> {
    await this.http.json(path(id), { method: "DELETE" });
  }

  async #data(at: string): Promise<unknown> {
    return object((await this.http.json(at)).data)?.["data"];
  }
}

function path(id: string): string {
  return `api/ops/tasks/${encodeURIComponent(id)}`;
}
