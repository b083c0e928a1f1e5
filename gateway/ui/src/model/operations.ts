/** What operators are shown, made of what the server counts and lists. Pure. */

import { classify, wordsOf } from "./events";
import type { Backlog, Executor, Minute, OpsEvent, OpsQuery, OpsTask, Overview } from "./ops";
import type { State } from "./view";

export const STATES = ["pending", "working", "paused", "completed", "failed", "cancelled"] as const;
export type OpsState = (typeof STATES)[number];

export const VIEWS = ["overview", "tasks", "failures"] as const;

/** What of the operators' view is shown; it is in the address. */
export interface Place extends Required<OpsQuery> {
  readonly view: (typeof VIEWS)[number];
}

const NAMES = ["state", "agent", "owner", "executor"] as const;

/** Return the place that the query of an address names. A filter without a view means the list. */
export function readPlace(query: URLSearchParams): Place {
  const [state, agent, owner, executor] = NAMES.map((name) => query.get(name) ?? "") as [string, string, string, string];
  const error = query.get("error") === "1" && (!state || state === "failed");
  const asked = VIEWS.find((view) => view === query.get("view"));
  const known = STATES.some((one) => one === state) ? state : "";
  return { view: asked ?? (known || agent || owner || executor || error ? "tasks" : "overview"), state: known, agent, owner, executor, error };
}

/** Return the query of the address of a place, with `?`; empty for the overview. */
export function placeQuery(place: Partial<Place>): string {
  const query = new URLSearchParams();
  if (place.view && place.view !== "overview") query.set("view", place.view);
  for (const name of NAMES) if (place[name]) query.set(name, place[name]);
  if (place.error) query.set("error", "1");
  return query.size ? `?${query}` : "";
}

/** Return the state of a task in the terms of the filters. */
export function opsState(task: { readonly state: string; readonly paused?: boolean }): OpsState {
  if (task.paused) return "paused";
  return STATES.find((state) => state === task.state) ?? "pending";
}

/** Return the number of tasks by agent and state, agents in order. */
export function matrix(overview: Overview): { agent: string; counts: Readonly<Record<OpsState, number>> }[] {
  const rows = new Map<string, Record<OpsState, number>>();
  for (const one of overview.tasks) {
    const counts = rows.get(one.agent) ?? { pending: 0, working: 0, paused: 0, completed: 0, failed: 0, cancelled: 0 };
    counts[opsState(one)] += one.count;
    rows.set(one.agent, counts);
  }
  return [...rows].sort(([one], [other]) => one.localeCompare(other)).map(([agent, counts]) => ({ agent, counts }));
}

/** Something that an operator should look at. */
export type Concern =
  | { readonly code: "NO_EXECUTOR"; readonly count: number; readonly seconds: number }
  | { readonly code: "SLOW_QUEUE"; readonly agent: string; readonly count: number; readonly seconds: number }
  | { readonly code: "SILENT"; readonly executor: Executor }
  | { readonly code: "UNCOPIED" | "ABANDONED"; readonly count: number; readonly seconds: number };

const SLOW_QUEUE_S = 10;
const UNCOPIED_S = 60;

/** Return what needs attention, most urgent first. Silent executors without a lease do not. */
export function concerns({ queue, executors, uncopied, abandoned }: Overview): Concern[] {
  const waiting = queue.reduce((sum, { queued }) => sum + queued, 0);
  const oldest = Math.max(0, ...queue.map(({ oldestSeconds }) => oldestSeconds));
  const alive = executors.some((one) => one.alive);
  const slow = queue.filter(({ oldestSeconds }) => oldestSeconds >= SLOW_QUEUE_S);
  const backlog = (code: "UNCOPIED" | "ABANDONED", { count, oldestSeconds }: Backlog, after: number): Concern[] =>
    count && (oldestSeconds ?? 0) >= after ? [{ code, count, seconds: oldestSeconds ?? 0 }] : [];
  return [
    ...(waiting && !alive ? [{ code: "NO_EXECUTOR" as const, count: waiting, seconds: oldest }] : []),
    ...executors.filter((one) => !one.alive && one.leases).map((executor) => ({ code: "SILENT" as const, executor })),
    ...(alive ? slow.map(({ agent, queued, oldestSeconds }) => ({ code: "SLOW_QUEUE" as const, agent, count: queued, seconds: oldestSeconds })) : []),
    ...backlog("UNCOPIED", uncopied, UNCOPIED_S),
    ...backlog("ABANDONED", abandoned, 0),
  ];
}

/** Return the greatest figure of the minutes and the minute of it; null if all are 0. */
export function peak(minutes: readonly Minute[], of: "begun" | "ended" | "failed"): { count: number; at: string } | null {
  const most = minutes.reduce<Minute | null>((best, one) => (one[of] > (best?.[of] ?? 0) ? one : best), null);
  return most && { count: most[of], at: most.at };
}

/** Tasks that failed for one reason, newest first. */
export interface Reason {
  /** What all of them have in common. */
  readonly key: string;
  /** The reason of the newest one, as it was told. */
  readonly text: string;
  readonly tasks: readonly OpsTask[];
}

/** Return failed tasks by reason, most frequent first. Reasons that differ in ids, figures or quotes are one. */
export function reasons(tasks: readonly OpsTask[]): Reason[] {
  const found = new Map<string, OpsTask[]>();
  for (const task of tasks) found.set(alike(task.error ?? ""), [...(found.get(alike(task.error ?? "")) ?? []), task]);
  const groups = [...found].map(([key, group]) => ({ key, text: group[0]?.error ?? "", tasks: group }));
  return groups.sort((one, other) => other.tasks.length - one.tasks.length);
}

function alike(error: string): string {
  return error.trim().replace(/"[^"]*"|'[^']*'|`[^`]*`|[\w-]*\d[\w-]*/g, "#").slice(0, 200);
}

/** Return what an event of a log says: a state if it is about one, and words. */
export function told(event: OpsEvent): { state: State | null; text: string } {
  const { kind, state, message, history, artifacts } = classify(event.event);
  const named = artifacts.map((one) => [one.name || one.id, wordsOf(one.parts)].filter(Boolean).join(": "));
  if (kind === "artifact-update") return { state: null, text: named.join() };
  const text = wordsOf((message ?? history.at(-1))?.parts);
  return { state: kind === "task" || kind === "status-update" ? state : null, text };
}

/** Return the rows of a list and a newer part of it as one list, each generation once, in order. */
export function joined(one: readonly OpsEvent[], other: readonly OpsEvent[]): OpsEvent[] {
  const all = new Map([...one, ...other].map((event) => [event.generation, event]));
  return [...all.values()].sort((first, second) => first.generation - second.generation);
}
