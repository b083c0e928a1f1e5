/** What operators are told by the routes under `/api/ops`, and what they are shown of it. */

/** A count of what waits; `oldestSeconds` is null if nothing does. */
export type Backlog = Readonly<{ count: number; oldestSeconds: number | null }>;
export type Percentiles = Readonly<{ p50: number; p95: number }>;
export type Executor = Readonly<{ id: string; alive: boolean; agents: readonly string[] }> &
  Readonly<Record<"leases" | "running" | "lastSeenSeconds", number>>;
type InState = Readonly<{ state: string; paused?: boolean; rejected?: boolean }>;

export interface Overview extends Readonly<Record<"uncopied" | "abandoned", Backlog>> {
  readonly tasks: readonly (InState & Readonly<{ agent: string; count: number }>)[];
  readonly queue: readonly Readonly<{ agent: string; queued: number; oldestSeconds: number }>[];
  readonly executors: readonly Executor[];
  readonly recent: Readonly<{ since: string; begun: number; ended: number; failed: number }> &
    Readonly<Record<"durationSeconds" | "queuedSeconds", Percentiles | null>>;
  readonly bounded: boolean;
  /** What needs attention, with what to do, most urgent first. `executor`: the id of the one that is meant. */
  readonly concerns: readonly Readonly<Record<"code" | "message" | "suggestion", string> & { executor?: string }>[];
}

export type OpsTask = InState &
  Readonly<Record<"taskId" | "contextId" | "owner" | "agent" | "createdAt" | "statusAt", string>> &
  Readonly<Partial<Record<"asked" | "executor" | "error" | "errorCode" | "cause" | "completedAt" | "queuedAt" | "leaseExpiresAt", string>>> &
  Readonly<Record<"generation" | "attempt" | "maxAttempts" | "fence", number>> &
  Readonly<{ copied: boolean; superseded?: boolean; document?: boolean }> &
  /** Why a queued task will not begin, and what to do. */
  Readonly<{ waiting?: Readonly<Record<"code" | "message" | "suggestion", string>> }>;

/** Return what is not empty as the query of an address, with `?`; empty if nothing is. */
export function queryOf(values: Readonly<Record<string, string>>): string {
  const query = new URLSearchParams(Object.entries(values).filter(([, value]) => value));
  return query.size ? `?${query}` : "";
}

export const STATES = ["pending", "working", "paused", "completed", "failed", "rejected", "cancelled"] as const;
export const FILTERS = ["agent", "owner", "executor"] as const;
export type OpsState = (typeof STATES)[number];

/** What of the operators' view is shown; it is in the address. Empty: the overview, and not filtered by that. */
export type Place = Readonly<Record<"view" | "state" | (typeof FILTERS)[number], string>>;

/** Return the place that the query of an address names. A filter without a view means the list. */
export function readPlace(query: URLSearchParams): Place {
  const [agent = "", owner = "", executor = ""] = FILTERS.map((name) => query.get(name)?.trim() ?? "");
  const state = STATES.find((one) => one === query.get("state")) ?? "";
  const listed = query.get("view") === "tasks" || state || agent || owner || executor;
  return { view: listed ? "tasks" : "", state, agent, owner, executor };
}

/** Return the state of a task in the terms of the filters. */
export function opsState(task: InState): OpsState {
  return task.paused ? "paused" : task.rejected ? "rejected" : (STATES.find((state) => state === task.state) ?? "pending");
}

/** Tell whether the lease of a task has run out at a time of the server. */
export function lapsed({ leaseExpiresAt = "" }: OpsTask, now: number): boolean {
  return Date.parse(leaseExpiresAt) < now;
}

/** Return the number of tasks by agent and state, agents in order; at the end of all agents (null) if there are several. */
export function matrix({ tasks }: Overview): { agent: string | null; counts: Readonly<Record<OpsState, number>> }[] {
  const agents = [...new Set(tasks.map(({ agent }) => agent))].sort((one, other) => one.localeCompare(other));
  return [...agents, ...(agents.length > 1 ? [null] : [])].map((agent) => {
    const counts = { pending: 0, working: 0, paused: 0, completed: 0, failed: 0, rejected: 0, cancelled: 0 };
    for (const one of tasks) if (agent === null || one.agent === agent) counts[opsState(one)] += one.count;
    return { agent, counts };
  });
}
