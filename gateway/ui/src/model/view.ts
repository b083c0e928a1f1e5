/**
 * The state of one open session as a page shows it. `OpenSession.view` is a plain object of this type, made anew after
 * each change; parts that did not change keep their identity, so that a view can compare them by reference.
 */

import type { Message, Part, Piece } from "./events";
import type { Failure } from "./failures";
import type { MessageRow } from "./rows";
import type { TaskInfo } from "./tasks";

export type { SessionView } from "./followed";
export type { WireRecord } from "./records";
export type { Failure, Message, Part, TaskInfo };

/** A task state of A2A 0.3, or `unknown`. */
type Ended = "completed" | "failed" | "canceled" | "rejected";
export type State = "submitted" | "working" | "input-required" | "auth-required" | Ended | "unknown";

export type StateChange = Readonly<{ state: State; at: string }>;

/** One version of an artifact: a chunk that does not append begins a new one. An older one without parts was not loaded. */
export interface ArtifactVersion {
  readonly parts: readonly Part[];
  /** Bytes of texts and decoded raw parts. */
  readonly size: number;
  readonly complete: boolean;
}

export interface Artifact extends Omit<Piece, "parts"> {
  readonly taskId: string;
  /** Oldest first; the last one is current. */
  readonly versions: readonly ArtifactVersion[];
  /** The first one is version 1. Else it is not known how many there were before. */
  readonly numbered: boolean;
}

export interface ToolCall {
  readonly id: string;
  readonly name: string;
  readonly args: unknown;
  /** Undefined while there is no response. */
  readonly response?: unknown;
  readonly state: "running" | "done" | "interrupted";
}

/** One line of the conversation. `key` is stable: the id of the message, of the first call of a group, of the task. */
export type Row =
  | MessageRow
  | { readonly kind: "tools"; readonly key: string; readonly taskId: string; readonly calls: readonly ToolCall[] }
  | { readonly kind: "artifact"; readonly key: string; readonly artifact: Artifact }
  /** The end of a task that did not complete, with the reason, and the message that began it. */
  | { readonly kind: "end"; readonly key: string; readonly task: TaskInfo; readonly asked: Message | undefined }
  /** A task that waits for the user: the last row, while it waits. */
  | { readonly kind: "question"; readonly key: string; readonly task: TaskInfo; readonly message: Message | null };

/** What the user wants to send. */
export interface Draft {
  readonly text: string;
  readonly files: readonly { readonly name: string; readonly mediaType: string; readonly base64: string }[];
  /** A credential for a task that waits for one: sent in the metadata of the request, kept and shown nowhere. */
  readonly secret?: string;
}
