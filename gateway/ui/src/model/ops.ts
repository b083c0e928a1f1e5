/** The routes for operators, under `/api/ops`. */

import type { Http } from "./http";
import { object, objects, text } from "./json";

/** A count of what waits; `oldestSeconds` is null if nothing does. */
export type Backlog = Readonly<{ count: number; oldestSeconds: number | null }>;
export type Percentiles = Readonly<{ p50: number; p95: number }>;
export type Minute = Readonly<{ at: string; begun: number; ended: number; failed: number }>;
export type Executor = Readonly<{ id: string; alive: boolean; agents: readonly string[]; leases: number; running: number; lastSeenSeconds: number }>;
type InState = Readonly<{ state: string; paused?: boolean }>;

export interface Overview {
  readonly at: string;
  readonly tasks: readonly (InState & Readonly<{ agent: string; count: number }>)[];
  readonly queue: readonly Readonly<{ agent: string; queued: number; oldestSeconds: number }>[];
  readonly executors: readonly Executor[];
  readonly uncopied: Backlog;
  readonly abandoned: Backlog;
  readonly recent: Readonly<{ minutes: number; since: string; begun: number; ended: number; failed: number }> & {
    readonly perMinute: readonly Minute[];
    readonly durationSeconds: Percentiles | null;
    readonly queuedSeconds: Percentiles | null;
  };
  readonly bounded: boolean;
}

export type OpsTask = InState &
  Readonly<{ taskId: string; contextId: string; owner: string; agent: string; error?: string; copied: boolean; superseded?: boolean; document?: boolean }> &
  Readonly<{ createdAt: string; updatedAt: string; statusAt: string; completedAt?: string; queuedAt?: string; leaseExpiresAt?: string }> &
  Readonly<{ generation: number; attempt: number; maxAttempts: number; fence: number; executor?: string }>;

export type OpsEvent = Readonly<{ generation: number; time: string; attempt: number; fence: number; actor: string; kind: string; event: unknown; traceId?: string }>;
export type OpsQuery = Readonly<{ state?: string; agent?: string; owner?: string; executor?: string; error?: boolean }>;
/** A page of a log; `next`: the generation after which it goes on, 0 at its end. */
export type LogPage = Readonly<{ events: readonly OpsEvent[]; next: number }>;

const PAGE = 100;

export class OpsApi {
  constructor(private readonly http: Http) {}

  readonly overview = () => this.#call<Overview>("overview");
  /** Cancel a task and return it. */
  readonly cancel = (id: string) => this.#call<OpsTask>(`${path(id)}/cancel`, "POST");
  readonly delete = (id: string) => this.#call<null>(path(id), "DELETE");

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
    const { data, headers } = await this.http.json(`api/ops/${path(id)}`);
    const found = object(object(data)?.["data"]) ?? {};
    const task = found["task"] as OpsTask;
    const now = Date.parse(headers.get("Date") ?? "") || Date.now();
    return { ...task, first: (objects(found["events"])[0] as OpsEvent | undefined) ?? null, lapsed: Date.parse(task.leaseExpiresAt ?? "") < now };
  }

  /** Return the events of a task after a generation, oldest first. */
  async events(id: string, after: number, limit: number): Promise<LogPage> {
    const page = await this.#call<{ events: OpsEvent[]; next_after?: number }>(`${path(id)}/events?after=${after}&limit=${limit}`);
    return { events: page.events, next: page.next_after ?? 0 };
  }

  async #call<T>(path: string, method = "GET"): Promise<T> {
    const { data } = await this.http.json(`api/ops/${path}`, { method, ...(method === "POST" && { body: {} }) });
    return (data as { data: T } | null)?.data as T;
  }
}

function path(id: string): string {
  return `tasks/${encodeURIComponent(id)}`;
}
