/** The lines of a conversation, made of messages, tool calls, artifacts and the ends of tasks. */

import { dequal } from "dequal/lite";
import type { Conversation } from "./conversation";
import { INTERRUPTED, toolOf } from "./events";
import type { Outgoing } from "./outgoing";
import { AT_REST } from "./states";
import type { Message, Part, Row, TaskInfo, ToolCall } from "./view";

export type Shown = Readonly<Pick<Conversation, "messages" | "live" | "artifacts" | "hasOlder">> & {
  readonly tasks: readonly TaskInfo[];
  readonly paused: TaskInfo | null;
  readonly outgoing: ReadonlyMap<string, Pick<Outgoing, "sending">>;
  readonly rewinding: boolean;
};

/** Makes rows and keeps the objects of those that have not changed. */
export class Rows {
  #shown: Shown | null = null;
  #rows: readonly Row[] = [];

  /** Return the rows; the same array if nothing in them has changed. */
  of(shown: Shown): readonly Row[] {
    const before = this.#shown;
    this.#shown = shown;
    const changed = before && (Object.keys(shown) as (keyof Shown)[]).filter((key) => before[key] !== shown[key]);
    if (changed?.length === 0) return this.#rows;
    const grows = changed?.join() === "live" && before?.live.size === shown.live.size;
    if (grows && this.#grow(shown.live)) return this.#rows;
    const known = new Map(this.#rows.map((row) => [row.key, row]));
    const rows = make(shown).map((row) => {
      const same = known.get(row.key);
      return same && dequal(same, row) ? same : row;
    });
    if (rows.length !== this.#rows.length || rows.some((row, index) => row !== this.#rows[index])) this.#rows = rows;
    return this.#rows;
  }

  /** Replace the rows of growing texts only; return false if one of them has no row yet. */
  #grow(live: Shown["live"]): boolean {
    const rows = [...this.#rows];
    for (const message of live.values()) {
      const index = rows.findLastIndex(({ key }) => key === message.id);
      const row = rows[index];
      if (row?.kind !== "message" || !row.live) return false;
      rows[index] = { ...row, message };
    }
    this.#rows = rows;
    return true;
  }
}

function make(shown: Shown): Row[] {
  const { messages, live, outgoing, paused } = shown;
  const tasks = new Map(shown.tasks.map((task) => [task.id, task]));
  const last = new Map(messages.map((message, index) => [message.taskId, index]));
  const begun = new Map(messages.filter(({ role }) => role === "user").reverse().map((message) => [message.taskId, message]));
  const first = shown.hasOlder ? undefined : messages.find((message) => message.role === "user");
  const asked = messages[(paused && last.get(paused.id)) ?? -1];
  const answer = asked?.role === "user" ? asked : undefined;
  const question = answer ? undefined : asked;
  const rows: Row[] = [];
  const keys = new Map<string, number>();
  const calls = new Map<string, ToolCall>();

  const unique = (key: string): string => {
    const count = keys.get(key) ?? 0;
    keys.set(key, count + 1);
    return count ? `${key}#${count}` : key;
  };
  const tell = (message: Message, live: boolean): void => {
    const fixed = shown.rewinding || ["", first?.invocationId].includes(message.invocationId);
    rows.push(messageRow(message, message.id || unique("message"), live, outgoing.get(message.id)?.sending, !fixed));
  };
  const call = (taskId: string, part: Part): void => {
    const tool = toolOf(part);
    if (!tool) return;
    const key = `${taskId}/${tool.id || tool.name}`;
    let known = calls.get(key);
    if (!known || (tool.called && known.state === "done")) {
      const state = AT_REST.has(tasks.get(taskId)?.state ?? "completed") ? "interrupted" : "running";
      known = { id: tool.id, name: tool.name, args: tool.called ? tool.body : undefined, state };
      calls.set(key, known);
      const tail = rows.at(-1);
      if (tail?.kind === "tools" && tail.taskId === taskId) rows[rows.length - 1] = { ...tail, calls: [...tail.calls, known] };
      else rows.push({ kind: "tools", key: unique(`tools-${key}`), taskId, calls: [known] });
    }
    if (!tool.called) Object.assign(known, { response: tool.body, state: "done" });
  };

  messages.forEach((message, index) => {
    const task = tasks.get(message.taskId);
    const closes = task !== undefined && last.get(task.id) === index;
    const said = message.parts.some((part) => !toolOf(part));
    const reason = closes && ENDS.has(task.state) && message.role === "agent" && message.text === task.error;
    if (said && !reason && message !== question) tell(message, false);
    for (const part of message.parts) call(message.taskId, part);
    if (!closes) return;
    const growing = live.get(task.id);
    if (growing) tell(growing, true);
    for (const artifact of shown.artifacts)
      if (artifact.taskId === task.id) rows.push({ kind: "artifact", key: `artifact-${task.id}/${artifact.id}`, artifact });
    if (ENDS.has(task.state)) rows.push({ kind: "end", key: `end-${task.id}`, task, asked: begun.get(task.id) });
  });
  for (const [taskId, message] of live) if (!tasks.has(taskId) || !last.has(taskId)) tell(message, true);
  const answered = answer && ["sending", "queued"].includes(outgoing.get(answer.id)?.sending.state ?? "");
  if (paused && !answered) rows.push({ kind: "question", key: `question-${paused.id}`, task: paused, message: question ?? null });
  return rows;
}

function messageRow(message: Message, key: string, live: boolean, sending: Outgoing["sending"] | null = null, mayCut: boolean) {
  return {
    kind: "message" as const,
    key,
    message,
    /** Its text still grows. */
    live,
    /** It stopped growing without an end. */
    interrupted: message.metadata[INTERRUPTED] === true,
    /** Null once the server has it. */
    sending,
    canRewind: mayCut && !sending,
  };
}

export type MessageRow = Readonly<ReturnType<typeof messageRow>>;

const ENDS: ReadonlySet<string> = new Set(["failed", "canceled", "rejected"]);
