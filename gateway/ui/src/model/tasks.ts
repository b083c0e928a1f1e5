/** The tasks of one session, oldest first, each id once (M1-M4, M10). A task is replaced by another object when it changes. */

import { dequal } from "dequal/lite";
import { type Json, objects, text } from "./json";
import { ACTIVE, TERMINAL, stateOf } from "./states";
import type { State, StateChange } from "./view";

export type TaskInfo = Readonly<ReturnType<typeof readTaskInfo>>;

export class Tasks {
  readonly #tasks = new Map<string, TaskInfo>();
  #list: readonly TaskInfo[] | null = null;

  constructor(tasks: Iterable<TaskInfo> = []) {
    for (const task of tasks) this.put(task);
  }

  get list(): readonly TaskInfo[] {
    return (this.#list ??= [...this.#tasks.values()]);
  }

  find(id: string): TaskInfo | null {
    return this.#tasks.get(id) ?? null;
  }

  /**
   * Record the state of a task and why it failed; add the task if it is not known. Terminal states are final (M4). Return
   * false for a state that is not terminal after one that is.
   */
  enter(id: string, state: State, error = "", at = ""): boolean {
    const known = this.#tasks.get(id);
    const task = known ?? readTaskInfo({ id, state, createdAt: at, changes: [{ state, at }] });
    if (TERMINAL.has(task.state) && state !== task.state) return TERMINAL.has(state);
    const failed = state === "failed" || state === "rejected";
    if (known && state === task.state && (!failed || !error || error === task.error)) return true;
    this.#put({
      ...task,
      state,
      error: failed ? error || task.error : task.error,
      updatedAt: at || task.updatedAt,
      completedAt: task.completedAt || (TERMINAL.has(state) ? at : ""),
      changes: task.state === state ? task.changes : [...task.changes, { state, at }],
    });
    return true;
  }

  /** Change what is not part of a task's state; do nothing if the task is not known. */
  amend(id: string, change: Partial<TaskInfo>): void {
    const task = this.#tasks.get(id);
    if (task) this.#put({ ...task, ...change });
  }

  /** Take what the server tells of a task. It does not tell which kind of answer a task waits for, nor the figures. */
  put(told: TaskInfo): void {
    const known = this.#tasks.get(told.id);
    if (!known) return this.#put(told);
    if (TERMINAL.has(known.state) && !TERMINAL.has(told.state)) return;
    const signIn = known.state === "auth-required" && told.state === "input-required";
    const { usage, firstOutputMs } = known;
    const changes = told.changes.length ? told.changes : known.changes;
    const state = signIn ? known.state : told.state;
    this.#put({ ...told, state, changes, usage, firstOutputMs, agent: told.agent || known.agent });
  }

  /** Take the server's list: its order, and no task that is not in it, except `also`. */
  replace(told: readonly TaskInfo[], also = (_task: TaskInfo): boolean => false): void {
    for (const task of told) this.put(task);
    const all = [...told.map((task) => this.find(task.id) ?? task), ...this.list.filter(also)];
    this.#tasks.clear();
    for (const task of all) this.#tasks.set(task.id, task);
    this.#list = null;
  }

  #put(task: TaskInfo): void {
    const known = this.#tasks.get(task.id);
    if (dequal(known, task)) return;
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
    createdAt: text(body, "createdAt"),
    updatedAt: text(body, "updatedAt"),
    completedAt: text(body, "completedAt"),
    ...readChange(body),
    changes: objects(body["changes"]).map((change): StateChange => ({ ...readChange(change), at: text(change, "at") })),
    /** Figures that the agent told (`metadata["taskplane.dev/usage"]`); never made up. */
    usage: {} as Readonly<Record<string, number>>,
    /** Milliseconds from this client's send to the first text or artifact it saw; null if it did not send or see it. */
    firstOutputMs: null as number | null,
  };
}

function readChange({ state: spelling, paused, rejected }: Json): { state: State } {
  const state = rejected === true ? "rejected" : stateOf(spelling);
  return { state: paused === true && ACTIVE.has(state) ? "input-required" : state };
}
