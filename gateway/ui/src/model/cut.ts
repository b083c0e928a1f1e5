/** The part of a conversation that a rewind cuts: hidden at once, removed when the server has answered (R11). */

import type { Message } from "./view";

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
export function cutAt(place: number, shown: readonly Message[], tasks: readonly string[]) {
  const before = shown.slice(0, place);
  const after = shown.slice(place);
  const [stays, seen] = [named(before, "invocationId"), named(shown, "taskId")];
  return {
    messages: named(after, "id"),
    invocations: new Set([...named(after, "invocationId")].filter((id) => !stays.has(id))),
    tasks: new Set([...tasks.filter((id) => !seen.has(id)), ...named(after, "taskId")]),
    kept: named(before, "id"),
  };
}

/** The part that is hidden while a rewind is under way. */
export type Cut = ReturnType<typeof cutAt>;

/**
 * Return the tasks and the invocations that a new history no longer contains. A task is lost with all of its messages, or
 * with one of its invocations; its remaining messages are kept as history.
 */
export function lost(before: readonly Message[], after: readonly Message[], cut: Cut | null) {
  const there = named(after, "taskId");
  const kept = named(after, "invocationId");
  const invocations = new Set([...named(before, "invocationId")].filter((id) => !kept.has(id)));
  const torn = before.filter(({ taskId, invocationId }) => !there.has(taskId) || invocations.has(invocationId));
  const tasks = new Set([...[...(cut?.tasks ?? [])].filter((id) => !there.has(id)), ...named(torn, "taskId")]);
  return { tasks, invocations };
}

function named(messages: readonly Message[], key: "id" | "taskId" | "invocationId"): Set<string> {
  return new Set(messages.map((message) => message[key]).filter(Boolean));
}
