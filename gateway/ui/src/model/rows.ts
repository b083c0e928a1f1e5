/** The lines of a conversation, made of messages, tool calls, artifacts and the ends of tasks. */

import { dequal } from "dequal/lite";
import type { Artifacts } from "./artifacts";
import type { Conversation } from "./conversation";
import { INTERRUPTED, toolOf } from "./events";
import { object } from "./json";
import { AT_REST, PAUSED } from "./tasks";
import type { Artifact, Message, Part, Row, TaskInfo, ToolCall } from "./view";

export type Shown = Readonly<Pick<Conversation, "messages" | "live" | "hasOlder">> & {
  readonly artifacts: Artifacts["of"];
  readonly tasks: readonly TaskInfo[];
  readonly paused: TaskInfo | null;
  readonly rewinding: boolean;
};

/** Makes rows and keeps the objects of those that have not changed. */
export class Rows {
  #shown: Shown | null = null;
  #rows: readonly Row[] = [];

  /** Return the rows; the same array if nothing in them has changed. Texts that only grow are put into their rows. */
  of(shown: Shown): readonly Row[] {
    const before = this.#shown;
    this.#shown = shown;
    const changed = (Object.keys(shown) as (keyof Shown)[]).filter((key) => before?.[key] !== shown[key]);
    const growing = ({ live }: Shown): string[] => [...live.values()].map(({ id }) => id);
    if (before && changed.every((key) => key === "live") && dequal(growing(before), growing(shown))) {
      const grown = (row: Row): Row =>
        row.kind === "message" && row.live ? { ...row, message: shown.live.get(row.message.taskId) ?? row.message } : row;
      return changed.length ? (this.#rows = this.#rows.map(grown)) : this.#rows;
    }
    const known = new Map(this.#rows.map((row) => [row.key, row]));
    return (this.#rows = make(shown).map((row) => {
      const same = known.get(row.key);
      return same && dequal(same, row) ? same : row;
    }));
  }
}

function make({ messages, live, artifacts, paused, hasOlder, rewinding, ...shown }: Shown): Row[] {
  const tasks = new Map(shown.tasks.map((task) => [task.id, task]));
  const last = new Map(messages.map((message, index) => [message.taskId, index]));
  const said = messages.filter(({ role }) => role === "user");
  const begun = new Map(said.toReversed().map((message) => [message.taskId, message]));
  const first = hasOlder ? undefined : said[0];
  const asked = messages[(paused && last.get(paused.id)) ?? -1];
  const question = asked?.role === "agent" ? asked : null;
  const answers = asked?.sending && asked.sending.state !== "failed";
  const places = placed(messages, live, artifacts);
  const rows: Row[] = [];
  const calls = new Map<string, ToolCall>();

  const keyOf = ({ id }: Message): string => id || `message-${rows.length}`;
  const tell = (message: Message, live: boolean): void => {
    const { sending, invocationId, metadata } = message;
    // Before what the user said first there is nothing to go back to; its answer takes both of them back.
    const canRewind = !rewinding && !sending && invocationId !== "" && message !== first;
    const interrupted = metadata[INTERRUPTED] === true;
    rows.push({ kind: "message", key: keyOf(message), message, live, interrupted, sending, canRewind });
  };
  const make = (place: string): void => {
    for (const artifact of places.get(place) ?? [])
      rows.push({ kind: "artifact", key: `artifact-${artifact.taskId}/${artifact.id}`, artifact });
  };
  const call = (message: Message, part: Part): void => {
    const tool = toolOf(part);
    if (!tool) return;
    const { taskId } = message;
    const key = `${taskId}/${tool.id || tool.name}`;
    let known = calls.get(key);
    if (!known || (tool.called && "response" in known)) {
      const of = tasks.get(taskId)?.state ?? "completed";
      const state = PAUSED.has(of) ? "waiting" : AT_REST.has(of) ? "interrupted" : "running";
      known = { id: tool.id, name: tool.name, args: tool.called ? tool.body : undefined, state };
      calls.set(key, known);
      const tail = rows.at(-1);
      if (tail?.kind === "tools" && tail.taskId === taskId) rows[rows.length - 1] = { ...tail, calls: [...tail.calls, known] };
      else rows.push({ kind: "tools", key: `tools-${keyOf(message)}`, taskId, calls: [known] });
    }
    if (!tool.called) Object.assign(known, { response: tool.body, state: failedIn(tool.body) ? "failed" : "done" });
  };

  messages.forEach((message, index) => {
    const task = tasks.get(message.taskId);
    const closes = task !== undefined && last.get(task.id) === index;
    const said = message.parts.some((part) => !toolOf(part));
    const reason = closes && ENDS.has(task.state) && plainly(message) && message.text === task.error;
    if (said && !reason && message !== question) tell(message, false);
    for (const part of message.parts) call(message, part);
    make(afterMessage(message));
    if (!closes) return;
    const growing = live.get(task.id);
    if (growing) {
      tell(growing, true);
      make(afterMessage(growing));
    }
    make(atEnd(task.id));
    if (ENDS.has(task.state)) rows.push({ kind: "end", key: `end-${task.id}`, task, asked: begun.get(task.id) });
  });
  for (const [taskId, message] of live) if (!tasks.has(taskId) || !last.has(taskId)) tell(message, true);
  if (paused && !answers) rows.push({ kind: "question", key: question?.id || `question-${paused.id}`, task: paused, message: question });
  return rows;
}

/** Return whether a message of an agent is a text and nothing else. */
const plainly = ({ role, parts }: Message): boolean => role === "agent" && parts.every((part) => part.text !== undefined);

const afterMessage = ({ taskId, id }: Message): string => `${taskId}/${id}`;
/** The place at the end of a task, after a text that grows. */
const atEnd = (taskId: string): string => taskId;

/**
 * Return the artifacts at each place. One stands after the message that was the newest when it came; if that is not shown, by
 * its time after one that is, else at the end of its task.
 */
function placed(messages: readonly Message[], live: Shown["live"], artifacts: Shown["artifacts"]): ReadonlyMap<string, readonly Artifact[]> {
  const places = new Map<string, Artifact[]>();
  const of = new Map([...artifacts].flatMap(([taskId, { size }]) => (size ? [[taskId, [] as Message[]]] : [])));
  if (of.size) for (const message of messages) of.get(message.taskId)?.push(message);
  for (const [taskId, all] of artifacts) {
    const [mine, growing] = [of.get(taskId) ?? [], live.get(taskId)];
    for (const one of all.values()) {
      const named = [...mine, ...(growing ? [growing] : [])].find(({ id }) => id && id === one.after);
      const timed = (): Message | undefined => mine.findLast(({ at }) => Date.parse(at) <= Date.parse(one.at)) ?? mine[0];
      const message = named ?? (one.after && one.at && mine.every(({ at }) => at) ? timed() : undefined);
      const place = message ? afterMessage(message) : atEnd(taskId);
      places.set(place, [...(places.get(place) ?? []), one]);
    }
  }
  return places;
}

/** Return whether the response of a tool is an error, as frameworks and MCP write it. */
function failedIn(response: unknown): boolean {
  const { error, isError, status } = object(response) ?? {};
  return Boolean(error) || isError === true || status === "error";
}

const ENDS: ReadonlySet<string> = new Set(["failed", "canceled", "rejected"]);
