/** What operators are shown, made of what the server counts and lists. Pure. */

import { type Minute, type OpsTask, type Overview, queryOf } from "./ops";

export const STATES = ["pending", "working", "paused", "completed", "failed", "cancelled"] as const;
export const VIEWS = ["overview", "tasks", "failures"] as const;
export const FILTERS = ["agent", "owner", "executor"] as const;
export type OpsState = (typeof STATES)[number];

/** What of the operators' view is shown; it is in the address. Empty: not filtered by that. */
export type Place = Readonly<{ view: (typeof VIEWS)[number] } & Record<"state" | (typeof FILTERS)[number], string>>;

/** Return the place that the query of an address names. A filter without a view means the list. */
export function readPlace(query: URLSearchParams): Place {
  const [agent = "", owner = "", executor = ""] = FILTERS.map((name) => query.get(name)?.trim() ?? "");
  const named = query.get("state") ?? (query.get("error") === "1" && "failed");
  const state = STATES.find((one) => one === named) ?? "";
  const listed = state || agent || owner || executor ? "tasks" : "overview";
  return { view: VIEWS.find((view) => view === query.get("view")) ?? listed, state, agent, owner, executor };
}

/** Return the query of the address of a place, with `?`; empty for the overview. */
export function placeQuery({ view = "overview", ...filters }: Partial<Place>): string {
  return queryOf({ view: view === "overview" ? "" : view, ...filters });
}

/** Return the state of a task in the terms of the filters. */
export function opsState(task: { readonly state: string; readonly paused?: boolean }): OpsState {
  return task.paused ? "paused" : (STATES.find((state) => state === task.state) ?? "pending");
}

/** Return the number of tasks by agent and state, agents in order; at the end of all agents (null) if there are several. */
export function matrix({ tasks }: Overview): { agent: string | null; counts: Readonly<Record<OpsState, number>> }[] {
  const agents = [...new Set(tasks.map(({ agent }) => agent))].sort((one, other) => one.localeCompare(other));
  return [...agents, ...(agents.length > 1 ? [null] : [])].map((agent) => {
    const counts = { pending: 0, working: 0, paused: 0, completed: 0, failed: 0, cancelled: 0 };
    for (const one of tasks) if (agent === null || one.agent === agent) counts[opsState(one)] += one.count;
    return { agent, counts };
  });
}

/** Return the greatest figure of the minutes and the minute of it; null if all are 0. */
export function peak(minutes: readonly Minute[], of: "begun" | "ended" | "failed"): { count: number; at: string } | null {
  const most = minutes.reduce<Minute | null>((best, one) => (one[of] > (best?.[of] ?? 0) ? one : best), null);
  return most && { count: most[of], at: most.at };
}

/** Return failed tasks by reason, most frequent first. Reasons that differ in ids, figures or quotes are one. */
export function reasons(tasks: readonly OpsTask[]): [key: string, tasks: OpsTask[]][] {
  const found = new Map<string, OpsTask[]>();
  for (const task of tasks) {
    const key = (task.error ?? "").trim().replace(/"[^"]*"|'[^']*'|`[^`]*`|[\w-]*\d[\w-]*/g, "#").slice(0, 200);
    found.set(key, [...(found.get(key) ?? []), task]);
  }
  return [...found].sort(([, one], [, other]) => other.length - one.length);
}
