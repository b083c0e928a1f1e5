/** The task that the next message belongs to: one that waits or runs, or a new one (I3, I6). */

import { TERMINAL } from "./states";
import type { TaskInfo } from "./view";

/** References of a message to earlier tasks; at most one of the two is set. */
export interface Continuation {
  readonly taskId: string;
  readonly referenceTaskIds: readonly string[];
}

/**
 * Return the references of the next message, by the last known state of the session's newest task. A task that waits or
 * runs is named, so that it gets the message; a terminal one takes none, so the message begins a new task that refers to
 * it. An unknown state counts as running: if it is not, the server refuses and nothing is changed.
 */
export function continuation(last: TaskInfo | null): Continuation {
  if (!last) return { taskId: "", referenceTaskIds: [] };
  if (TERMINAL.has(last.state)) return { taskId: "", referenceTaskIds: [last.id] };
  return { taskId: last.id, referenceTaskIds: [] };
}
