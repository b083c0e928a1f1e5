/** The tasks of one session, their states in all spellings (M2), and how long each was in which. */

import { dequal } from "dequal/lite";
import { type Json, objects, text } from "./json";

/** A task state of A2A 0.3, or `unknown`. */
type Ended = "completed" | "failed" | "canceled" | "rejected";
export type State = "submitted" | "working" | "input-required" | "auth-required" | Ended | "unknown";

export const ACTIVE: ReadonlySet<State> = new Set(["submitted", "working"]);
export const PAUSED: ReadonlySet<State> = new Set(["input-required", "auth-required"]);
export const TERMINAL: ReadonlySet<State> = new Set(["completed", "failed", "canceled", "rejected"]);
export const AT_REST: ReadonlySet<State> = new Set([...PAUSED, ...TERMINAL]);

const OTHERS = new Map([
  ["pending", "submitted"], ["running", "working"], ["success", "completed"], ["error", "failed"], ["cancelled", "canceled"],
]);

/** Return the state for a spelling in any case: of A2A 1.0, of 0.3, or of another runtime; else `unknown`. */
export function stateOf(spelling: unknown): State {
  const word = String(spelling).toLowerCase().replace(/^task_state_/, "").replaceAll("_", "-");
  return [...ACTIVE, ...AT_REST].find((state) => state === (OTHERS.get(word) ?? word)) ?? "unknown";
}

export type TaskInfo = Readonly<ReturnType<typeof readTaskInfo>>;

/** The tasks, oldest first, each id once (M1-M4, M10). A task is replaced by another object when it changes. */
export class Tasks {
  /** Null for those that were known once, and are not any more. */
  #tasks = new Map<string, TaskInfo | null>();
  #list: readonly TaskInfo[] | null = null;

  get list(): readonly TaskInfo[] {
    return (this.#list ??= [...this.#tasks.values()].filter((task) => task !== null));
  }

  find(id: string): TaskInfo | null {
    return this.#tasks.get(id) ?? null;
  }

  /** Return whether a task was known once, and is not any more. */
  left(id: string): boolean {
    return this.#tasks.get(id) === null;
  }

  /**
   * Record the state of a task, with the reason and its code if it failed; add the task if it is not known. Terminal states are final
   * (M4). Return false for a state that is not terminal after one that is.
   */
  enter(id: string, state: State, error = "", at = "", code = ""): boolean {
    const known = this.find(id);
    const enters = state !== known?.state;
    if (!enters && !error) return true;
    const { changes, ...task } = known ?? readTaskInfo({ id, state, createdAt: at });
    const ended = TERMINAL.has(state);
    if (enters && known && TERMINAL.has(known.state)) return ended;
    this.#put({
      ...task,
      state,
      error: error || task.error,
      code: code || task.code,
      updatedAt: at || task.updatedAt,
      completedAt: task.completedAt || (ended ? at : ""),
      changes: enters ? [...changes, { state, at }] : changes,
    });
    return true;
  }

  /** Change what is not part of a task's state; do nothing if the task is not known. */
  amend(id: string, change: Partial<TaskInfo>): void {
    const task = this.find(id);
    if (task) this.#put({ ...task, ...change });
  }

  /** Take what the server tells of a task. It does not tell which kind of answer a task waits for, nor the figures. */
  put(told: TaskInfo): void {
    const known = this.find(told.id);
    if (!known) return this.#put(told);
    if (TERMINAL.has(known.state) && !TERMINAL.has(told.state)) return;
    const signIn = known.state === "auth-required" && told.state === "input-required";
    const { usage, firstOutputAt } = known;
    const changes = told.changes.length ? told.changes : known.changes;
    const state = signIn ? known.state : told.state;
    this.#put({ ...told, state, changes, usage, firstOutputAt, agent: told.agent || known.agent });
  }

  /** Keep these tasks only, in this order. */
  keep(tasks: readonly TaskInfo[]): void {
    const kept = new Map(tasks.map(({ id }) => [id, this.find(id)]));
    for (const id of this.#tasks.keys()) if (!kept.has(id)) kept.set(id, null);
    this.#tasks = kept;
    this.#list = null;
  }

  #put(task: TaskInfo): void {
    if (dequal(this.find(task.id), task)) return;
    this.#tasks.set(task.id, task);
    this.#list = null;
  }
}

/** Return the task infos of a JSON list, without those that cannot be read (M10). */
export const readTaskInfos = (list: unknown) => objects(list).map(readTaskInfo).filter(({ id }) => id);

/** Return the task info for its JSON. A working task that is `paused` waits for the user; `rejected`: nobody took it on. */
export function readTaskInfo(body: Json) {
  return {
    id: text(body, "taskId") || text(body, "id"),
    agent: text(body, "agent"),
    error: text(body, "error"),
    /** The code of the error; empty without any. */
    code: text(body, "errorCode") || text(body, "code"),
    createdAt: text(body, "createdAt"),
    updatedAt: text(body, "updatedAt"),
    completedAt: text(body, "completedAt"),
    state: readState(body),
    changes: objects(body["changes"]).map((change) => ({ state: readState(change), at: text(change, "at") })),
    /** Figures that the agent told (`metadata["taskplane.dev/usage"]`); never made up. */
    usage: {} as Readonly<Record<string, number>>,
    /** When the agent said or made something first, RFC 3339; empty: never, or it is not known; null: its log was not read. */
    firstOutputAt: null as string | null,
  };
}

function readState({ state: spelling, paused, rejected }: Json): State {
  const state = rejected === true ? "rejected" : stateOf(spelling);
  return paused === true && ACTIVE.has(state) ? "input-required" : state;
}

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
