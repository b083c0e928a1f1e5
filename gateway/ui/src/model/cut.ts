/** The part of a conversation that a rewind cuts: hidden at once, removed when the server has answered (R11). */

import type { Event } from "./events";
import type { Message } from "./view";

/** A message of the user that began a turn; `number` counts from 1. */
export interface Turn {
  readonly number: number;
  readonly message: Message;
}

/** The part that is hidden while a rewind is under way. */
export interface Cut {
  readonly messages: ReadonlySet<string>;
  readonly invocations: ReadonlySet<string>;
  readonly tasks: ReadonlySet<string>;
  readonly kept: ReadonlySet<string>;
}

/** Return whether a message was cut, or arrived late from a turn that was. */
export function hides(cut: Cut, message: Message): boolean {
  if (cut.messages.has(message.id) || cut.invocations.has(message.invocationId)) return true;
  return cut.tasks.has(message.taskId) && !cut.kept.has(message.id);
}

/** Return whether the user sent the message after the rewind began, so that it is the next turn. */
export function cameAfter(cut: Cut, message: Message): boolean {
  return message.role === "user" && !cut.kept.has(message.id) && !hides(cut, message);
}

/** Return the cut of everything from the index `place` on, tasks without any message included. */
export function cutAt(place: number, shown: readonly Message[], tasks: Iterable<string>): Cut {
  const before = shown.slice(0, place);
  const after = shown.slice(place);
  const stays = new Set(before.map((message) => message.invocationId)).add("");
  const seen = new Set(shown.map((message) => message.taskId));
  const silent = [...tasks].filter((id) => !seen.has(id));
  return {
    messages: new Set(after.map((message) => message.id).filter(Boolean)),
    invocations: new Set(after.map((message) => message.invocationId).filter((id) => !stays.has(id))),
    tasks: new Set([...silent, ...after.map((message) => message.taskId).filter(Boolean)]),
    kept: new Set(before.map((message) => message.id)),
  };
}

/** The tasks and invocations that were cut for good; late events of them are dropped. */
export class Removed {
  readonly tasks = new Set<string>();
  readonly invocations = new Set<string>();

  /** Return whether the event belongs to a task or a direct answer that was cut. */
  has(event: Event): boolean {
    switch (event.kind) {
      case "task":
        return this.tasks.has(event.id);
      case "status-update":
      case "artifact-update":
        return this.tasks.has(event.taskId);
      case "message":
        return this.invocations.has(event.message.invocationId);
      default:
        return false;
    }
  }
}

/** Return the turns that a rewind can name, oldest first: the first message of the user for each invocation. */
export function turns(messages: Iterable<Message>): Turn[] {
  const first = new Map<string, Message>();
  for (const message of messages)
    if (message.role === "user" && message.invocationId && !first.has(message.invocationId))
      first.set(message.invocationId, message);
  return [...first.values()].map((message, index) => ({ number: index + 1, message }));
}

/**
 * Return the tasks and the invocations that a new history no longer contains. A task is lost with all of its messages, or
 * with one of its invocations; its remaining messages are kept as history.
 */
export function lost(
  before: readonly Message[],
  after: readonly Message[],
  cut: Cut | null,
): { tasks: Set<string>; invocations: Set<string> } {
  const ids = new Set(after.map((message) => message.id));
  const there = new Set(after.map((message) => message.taskId));
  for (const message of before) if (ids.has(message.id)) there.add(message.taskId);
  const kept = new Set(after.map((message) => message.invocationId)).add("");
  const invocations = new Set(before.map((message) => message.invocationId).filter((id) => !kept.has(id)));
  const tasks = new Set([...(cut?.tasks ?? [])].filter((id) => !there.has(id)));
  for (const { taskId, invocationId } of before)
    if (taskId && (!there.has(taskId) || invocations.has(invocationId))) tasks.add(taskId);
  return { tasks, invocations };
}
