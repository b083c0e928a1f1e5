/**
 * The state of one open session as a page shows it. `OpenSession.view` is a plain object of this type, made anew after
 * each change; parts that did not change keep their identity, so that a view can compare them by reference.
 */

/** A task state of A2A 0.3, or `unknown`. */
type Ended = "completed" | "failed" | "canceled" | "rejected";
export type State = "submitted" | "working" | "input-required" | "auth-required" | Ended | "unknown";

/** A part of a message or an artifact, in the form of A2A 1.0. `raw` is base64. */
export interface Part {
  readonly text?: string;
  readonly data?: unknown;
  readonly raw?: string;
  readonly url?: string;
  readonly filename?: string;
  readonly mediaType?: string;
  readonly metadata?: Readonly<Record<string, unknown>>;
}

export interface Message {
  /** Empty for a message without an id. */
  readonly id: string;
  readonly role: "user" | "agent";
  readonly parts: readonly Part[];
  /** The texts of all parts, joined. */
  readonly text: string;
  readonly taskId: string;
  readonly contextId: string;
  readonly invocationId: string;
  readonly metadata: Readonly<Record<string, unknown>>;
  /** The time of its commit, RFC 3339; empty if it is not known. */
  readonly at: string;
  /** A piece of a text that still grows. */
  readonly partial: boolean;
  /** A line of progress, which is no part of the conversation. */
  readonly progress: boolean;
}

export interface StateChange {
  readonly state: State;
  readonly at: string;
}

export interface TaskInfo {
  readonly id: string;
  readonly state: State;
  readonly agent: string;
  readonly error: string;
  readonly createdAt: string;
  readonly updatedAt: string;
  readonly completedAt: string;
  readonly superseded: boolean;
  readonly changes: readonly StateChange[];
  /** Figures that the agent told (`metadata["taskplane.dev/usage"]`); never made up. */
  readonly usage: Readonly<Record<string, number>>;
  /** Milliseconds from this client's send to the first text or artifact it saw; null if it did not send or see it. */
  readonly firstOutputMs: number | null;
}

/** One version of an artifact: a chunk that does not append begins a new one. An older one without parts was not loaded. */
export interface ArtifactVersion {
  readonly parts: readonly Part[];
  /** Bytes of texts and decoded raw parts. */
  readonly size: number;
  readonly complete: boolean;
}

export interface Artifact {
  readonly taskId: string;
  readonly id: string;
  readonly name: string;
  readonly description: string;
  /** Oldest first; the last one is current. */
  readonly versions: readonly ArtifactVersion[];
}

export interface ToolCall {
  readonly id: string;
  readonly name: string;
  readonly args: unknown;
  /** Undefined while there is no response. */
  readonly response?: unknown;
  readonly state: "running" | "done" | "interrupted";
}

/** What a failure tells: the reason of the server, or `OFFLINE`, `UNREACHABLE`, `TIMED_OUT`, `NOT_UNDERSTOOD`. */
export interface Failure {
  readonly code: string;
  readonly message: string;
  readonly suggestion: string;
  readonly retryable: boolean;
  readonly requestId: string;
  /** HTTP status; 0 if there was no response. */
  readonly status: number;
  readonly metadata: Readonly<Record<string, string>>;
}

/** One line of the conversation. `key` is stable: the id of the message, of the first call of a group, of the task. */
export type Row =
  | {
      readonly kind: "message";
      readonly key: string;
      readonly message: Message;
      /** Its text still grows. */
      readonly live: boolean;
      /** It stopped growing without an end. */
      readonly interrupted: boolean;
      /** Null once the server has it. */
      readonly sending: { readonly state: "sending" | "queued" | "failed"; readonly failure: Failure | null } | null;
      readonly canRewind: boolean;
    }
  | { readonly kind: "tools"; readonly key: string; readonly taskId: string; readonly calls: readonly ToolCall[] }
  | { readonly kind: "artifact"; readonly key: string; readonly artifact: Artifact }
  /** The end of a task that did not complete, with the reason. */
  | { readonly kind: "end"; readonly key: string; readonly task: TaskInfo }
  /** A task that waits for the user: the last row, while it waits. */
  | { readonly kind: "question"; readonly key: string; readonly task: TaskInfo; readonly message: Message | null };

/** One thing that came or was sent, for the inspector: as it was on the wire, without credentials. */
export interface WireRecord {
  readonly number: number;
  /** Milliseconds since 1970, of this client. */
  readonly at: number;
  readonly direction: "sent" | "received";
  /** `task`, `status-update`, `artifact-update`, `message`, `unknown`, `request`, `response`, `error`. */
  readonly kind: string;
  readonly taskId: string;
  readonly messageId: string;
  /** The id of the SSE event; empty without one. */
  readonly cursor: string;
  readonly body: unknown;
}

export type { SessionView } from "./core";

/** What the user wants to send. */
export interface Draft {
  readonly text: string;
  readonly files: readonly { readonly name: string; readonly mediaType: string; readonly base64: string }[];
  /** A credential for a task that waits for one: sent in the metadata of the request, kept and shown nowhere. */
  readonly secret?: string;
}

export type Sent = { readonly ok: true; readonly sessionId: string } | { readonly ok: false; readonly failure: Failure };
