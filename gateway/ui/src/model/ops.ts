/** The routes for operators, under `/api/ops`. */

import type { Http } from "./http";
import { type Json, object, objects, text } from "./json";

export interface Overview {
  readonly at: string;
  readonly tasks: readonly { readonly agent: string; readonly state: string; readonly count: number }[];
  readonly queue: readonly { readonly agent: string; readonly queued: number; readonly oldestSeconds: number }[];
  readonly executors: readonly {
    readonly id: string;
    readonly agents: readonly string[];
    readonly running: number;
    readonly lastSeenSeconds: number;
    readonly leases: number;
  }[];
  readonly uncopied: number;
  readonly abandoned: number;
  readonly recent: {
    readonly minutes: number;
    readonly begun: number;
    readonly ended: number;
    readonly failed: number;
    readonly perMinute: readonly {
      readonly at: string;
      readonly begun: number;
      readonly ended: number;
      readonly failed: number;
    }[];
    readonly durationSeconds: { readonly p50: number; readonly p95: number } | null;
    readonly queuedSeconds: { readonly p50: number; readonly p95: number } | null;
  };
}

export interface OpsTask {
  readonly taskId: string;
  readonly contextId: string;
  readonly tenant?: string;
  readonly owner: string;
  readonly agent: string;
  readonly state: string;
  readonly paused?: boolean;
  readonly createdAt: string;
  readonly updatedAt: string;
  readonly completedAt?: string;
  readonly attempt: number;
  readonly fence: number;
  readonly executor?: string;
  readonly leaseExpiresAt?: string;
  readonly error?: string;
  readonly copied: boolean;
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
  readonly limit?: number;
  readonly pageToken?: string;
}

export class OpsApi {
  constructor(private readonly http: Http) {}

  async overview(): Promise<Overview> {
    return unwrap((await this.http.json("api/ops/overview")).data) as Overview;
  }

  async tasks(query: OpsQuery = {}): Promise<{ tasks: OpsTask[]; next: string }> {
    const { state = "", agent = "", owner = "", executor = "", error = false, limit = 50, pageToken = "" } = query;
    const values = { state, agent, owner, executor, error: error ? "1" : "", limit: String(limit), page_token: pageToken };
    const search = new URLSearchParams(Object.entries(values).filter(([, value]) => value));
    const body = object((await this.http.json(`api/ops/tasks?${search}`)).data) ?? {};
    return { tasks: objects(body["data"]) as unknown as OpsTask[], next: text(body, "next_page_token") };
  }

  async task(id: string): Promise<{ task: OpsTask; events: OpsEvent[] }> {
    const body = object(unwrap((await this.http.json(path(id))).data)) ?? {};
    return { task: body["task"] as OpsTask, events: objects(body["events"]) as unknown as OpsEvent[] };
  }

  /** Return the events of a task after a generation. */
  async events(id: string, after = 0, limit = 200): Promise<OpsEvent[]> {
    const { data } = await this.http.json(`${path(id)}/events?after=${after}&limit=${limit}`);
    const body = unwrap(data);
    return objects(Array.isArray(body) ? body : object(body)?.["events"]) as unknown as OpsEvent[];
  }

  async cancel(id: string): Promise<void> {
    await this.http.json(`${path(id)}/cancel`, { method: "POST", body: {} });
  }

  async delete(id: string): Promise<void> {
    await this.http.json(path(id), { method: "DELETE" });
  }
}

function path(id: string): string {
  return `api/ops/tasks/${encodeURIComponent(id)}`;
}

function unwrap(data: unknown): unknown {
  const body: Json = object(data) ?? {};
  return "data" in body ? body["data"] : data;
}
