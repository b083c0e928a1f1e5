/** How long a task was in each of its states. */

import { TERMINAL } from "./states";
import type { TaskInfo } from "./view";

/** Return the states of a task in order, each with its duration until `now` or the end; the last one has none if it ended. */
export function segments(task: TaskInfo, now: number) {
  const told = task.changes.length ? task.changes : [{ state: task.state, at: task.createdAt }];
  const changes = told.filter(({ state }, index) => state !== told[index - 1]?.state);
  return changes.map(({ state, at }, index) => {
    const next = changes[index + 1]?.at ?? (TERMINAL.has(state) ? at : new Date(now).toISOString());
    return { state, at, ms: Math.max(0, Date.parse(next) - Date.parse(at)) || 0 };
  });
}

/** A state of a task, when it began (RFC 3339), and how long it lasted. */
export type Segment = Readonly<ReturnType<typeof segments>[number]>;

/** Return the milliseconds from the beginning of a task to its end, or to `now`. */
export function lasted(parts: readonly Segment[]): number {
  return parts.reduce((sum, part) => sum + part.ms, 0);
}

/** Return the milliseconds in which no task ran between two that follow each other; 0 if there were none. */
export function idle(before: TaskInfo, after: TaskInfo): number {
  return Math.max(0, Date.parse(after.createdAt) - Date.parse(before.completedAt || before.updatedAt)) || 0;
}
