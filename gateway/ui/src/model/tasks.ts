/** The tasks of one session, oldest first, each id once (M1-M4, M10). A task is replaced by another object when it changes. */

import { type Json, object, objects, text } from "./json";
import { ACTIVE, TERMINAL, stateOf } from "./states";
import type { State, StateChange } from "./view";

export type TaskInfo = Readonly<NonNullable<ReturnType<typeof readTaskInfo>>>;

export class Tasks {
  readonly #tasks = new Map<string, TaskInfo>();
  #list: readonly TaskInfo[] | null = null;

  constructor(tasks: Iterable<TaskInfo> = []) {
    for (const task of tasks) if (!this.#tasks.has(task.id)) this.#tasks.set(task.id, task);
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
    const task = this.#tasks.get(id) ?? {
      ...EMPTY,
      id,
      state,
      createdAt: at,
      changes: [{ state, at }],
    };
    if (TERMINAL.has(task.state) && state !== task.state) return TERMINAL.has(state);
    const failed = state === "failed" || state === "rejected";
    if (state === task.state && this.#tasks.has(id) && (!failed || !error || error === task.error)) return true;
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
  replace(told: readonly TaskInfo[], also: (task: TaskInfo) => boolean = () => false): void {
    const before = this.list;
    for (const task of told) this.put(task);
    const ids = new Set(told.map((task) => task.id));
    const order = [...told, ...before.filter((task) => !ids.has(task.id) && also(task))];
    const merged = order.map((task) => this.#tasks.get(task.id) ?? task);
    this.#tasks.clear();
    for (const task of merged) this.#tasks.set(task.id, task);
    this.#list = null;
  }

  remove(ids: Iterable<string>): void {
    for (const id of ids) this.#tasks.delete(id);
    this.#list = null;
  }

  #put(task: TaskInfo): void {
    const known = this.#tasks.get(task.id);
    if (known && JSON.stringify(known) === JSON.stringify(task)) return;
    this.#tasks.set(task.id, task);
    this.#list = null;
  }
}

/** Return the newest task that is submitted or working, the only one worth a stream (M5). */
export function latestRunning(tasks: readonly TaskInfo[]): TaskInfo | null {
  return tasks.findLast((task) => ACTIVE.has(task.state)) ?? null;
}

const EMPTY = {
  agent: "",
  error: "",
  createdAt: "",
  updatedAt: "",
  completedAt: "",
  superseded: false,
  /** Figures that the agent told (`metadata["taskplane.dev/usage"]`); never made up. */
  usage: {} as Readonly<Record<string, number>>,
  /** Milliseconds from this client's send to the first text or artifact it saw; null if it did not send or see it. */
  firstOutputMs: null as number | null,
};

/**
 * Return the tasks of a stored session, `{contextId, agentEndpoint, tasks}`, written by a client of any version. One that
 * knew a single task per session stored its `taskId`; an older one stored none. Unreadable tasks are left out (M10).
 */
export function readTasks(stored: unknown): TaskInfo[] {
  const body = object(stored) ?? {};
  const tasks = Array.isArray(body["tasks"]) ? body["tasks"] : [{ taskId: body["taskId"], state: body["state"] }];
  return readTaskInfos(tasks);
}

/** Return the task infos of a JSON list, without those that cannot be read. */
export function readTaskInfos(list: unknown): TaskInfo[] {
  return objects(list)
    .map(readTaskInfo)
    .filter((task) => task !== null);
}

/** Return the task info for its JSON; null without an id. A working task that is `paused` waits for the user. */
export function readTaskInfo(stored: unknown) {
  const body = object(stored) ?? {};
  const id = text(body, "taskId") || text(body, "id");
  if (!id) return null;
  return {
    ...EMPTY,
    id,
    state: pausable(body["state"], body["paused"]),
    agent: text(body, "agent"),
    error: text(body, "error"),
    createdAt: text(body, "createdAt"),
    updatedAt: text(body, "updatedAt"),
    completedAt: text(body, "completedAt"),
    superseded: body["superseded"] === true,
    changes: objects(body["changes"]).map(readChange) as readonly StateChange[],
  };
}

function readChange(change: Json): StateChange {
  return { state: pausable(change["state"], change["paused"]), at: text(change, "at") };
}

function pausable(spelling: unknown, paused: unknown): State {
  const state = stateOf(spelling);
  return paused === true && ACTIVE.has(state) ? "input-required" : state;
}
