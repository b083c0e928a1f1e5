/**
 * The state of one open session as a page shows it. `OpenSession.view` is a plain object of this type, made anew after
 * each change; parts that did not change keep their identity, so that a view can compare them by reference.
 */

import type { Message, Part, Piece } from "./events";
import type { Failure } from "./http";
import type { TaskInfo } from "./tasks";

export type { Draft } from "./events";
export type { State } from "./tasks";
export type { Failure, Message, Part, TaskInfo };

/**
 * One version of an artifact: a chunk that does not append begins a new one. An older one without parts was not loaded.
 * `size`: bytes of texts and decoded raw parts.
 */
export type ArtifactVersion = Readonly<{ parts: readonly Part[]; size: number }>;

export interface Artifact extends Omit<Piece, "parts"> {
  readonly taskId: string;
  /** Oldest first; the last one is current. */
  readonly versions: readonly ArtifactVersion[];
  /** The first one is version 1. Else it is not known how many there were before. */
  readonly numbered: boolean;
  /** The last version has all of its pieces. */
  readonly complete: boolean;
}

/** A call of a tool; `response` is undefined while there is none. */
export type ToolCall = Readonly<{ id: string; name: string; args: unknown; response?: unknown; state: "running" | "done" | "failed" | "waiting" | "interrupted" }>;

/**
 * One line of the conversation. `key` is stable: the id of the message, of that with the first call of a group, of the task.
 * A message is `live` while its text grows, and `interrupted` if that stopped without an end. `end`: of a task that did not
 * complete, with the message that began it. `question`: of a task that waits for the user, the last row while it waits.
 */
export type Row = { readonly key: string } & Readonly<
  | { kind: "message"; message: Message; live: boolean; interrupted: boolean; sending: Message["sending"]; canRewind: boolean }
  | { kind: "tools"; taskId: string; calls: readonly ToolCall[] }
  | { kind: "artifact"; artifact: Artifact }
  | { kind: "end"; task: TaskInfo; asked: Message | undefined }
  | { kind: "question"; task: TaskInfo; message: Message | null }
>;
