/**
 * The elements of a stream, and their classification (T1, T7). A2A 1.0 wraps each in one key, 0.3 marks each with
 * `kind`; no other code of the model knows the difference.
 */

import { type Json, object, objects, text } from "./json";
import { stateOf } from "./states";
import type { Part, State } from "./view";

export const REWIND_BEFORE = "kagent_rewind_before_invocation_id";
export const INTERRUPTED = "interrupted";
const USAGE = "taskplane.dev/usage";
const INVOCATION_KEYS = ["kagent_invocation_id", "adk_invocation_id"];
const PARTIAL_KEYS = ["kagent_adk_partial", "adk_partial"];
const TOOL_KEYS = ["kagent_type", "adk_type"];

export type Message = Readonly<ReturnType<typeof readMessage>>;

/** An artifact, or a piece of one. */
export interface Piece {
  readonly id: string;
  readonly name: string;
  readonly description: string;
  readonly parts: readonly Part[];
}

export interface FullTask {
  readonly kind: "task";
  readonly id: string;
  readonly contextId: string;
  readonly state: State;
  readonly message: Message | null;
  readonly history: readonly Message[];
  readonly artifacts: readonly Piece[];
  readonly metadata: Json;
  readonly at: string;
  /** Its place in the log; empty for the session task. */
  readonly cursor: string;
}

export interface StatusUpdate {
  readonly kind: "status-update";
  readonly taskId: string;
  readonly contextId: string;
  readonly state: State;
  readonly message: Message | null;
  readonly metadata: Json;
  readonly at: string;
}

export interface ArtifactUpdate {
  readonly kind: "artifact-update";
  readonly taskId: string;
  readonly contextId: string;
  readonly artifact: Piece;
  readonly append: boolean;
  readonly last: boolean;
}

export type Event =
  | FullTask
  | StatusUpdate
  | ArtifactUpdate
  | { readonly kind: "message"; readonly message: Message }
  | { readonly kind: "unknown"; readonly data: unknown };

/** A tool call (`called`) or its result; `body` has the arguments or the response. */
export interface Tool {
  readonly called: boolean;
  readonly id: string;
  readonly name: string;
  readonly body: unknown;
}

const READERS: readonly [wrapper: string, kind: string, read: (body: Json) => Event][] = [
  ["task", "task", readTask],
  ["statusUpdate", "status-update", readStatus],
  ["artifactUpdate", "artifact-update", readArtifactUpdate],
  ["message", "message", (body) => ({ kind: "message", message: readMessage(body) })],
];

/**
 * Return the event for JSON: by wrapper key, then by `kind`, then if it resembles a task (a `history` that is not empty
 * and a string `id` or `contextId`), else unknown. A JSON-RPC response is unwrapped first.
 */
export function classify(data: unknown): Event {
  const outer = object(data);
  if (!outer) return { kind: "unknown", data };
  const body = object(outer["result"]) ?? outer;
  for (const [wrapper, , read] of READERS) {
    const inner = object(body[wrapper]);
    if (inner) return read(inner);
  }
  for (const [, kind, read] of READERS) if (body["kind"] === kind) return read(body);
  const named = typeof body["id"] === "string" || typeof body["contextId"] === "string";
  return named && objects(body["history"]).length ? readTask(body) : { kind: "unknown", data };
}

/** Return the task for its JSON of either version; missing members are tolerated. */
export function readTask(body: Json): FullTask {
  const metadata = object(body["metadata"]) ?? {};
  return {
    kind: "task",
    id: text(body, "id"),
    ...readState(body),
    history: objects(body["history"]).map(readMessage),
    artifacts: objects(body["artifacts"]).map(readPiece),
    metadata,
    cursor: text(metadata, "taskplane.dev/cursor"),
  };
}

/** Return all that parts say, in one line: texts, names of files, and data as JSON. */
export function wordsOf(parts: readonly Part[] = []): string {
  return parts.map((part) => part.text ?? part.filename ?? (part.data === undefined ? "" : JSON.stringify(part.data))).join(" ");
}

/** Return the message for its JSON of either version; in ProtoJSON of 0.3 the parts are called `content`. */
export function readMessage(body: Json) {
  const metadata = object(body["metadata"]) ?? {};
  const raw = objects(body["parts"]);
  const parts: readonly Part[] = (raw.length ? raw : objects(body["content"])).map(readPart);
  return {
    /** Empty for a message without an id. */
    id: text(body, "messageId"),
    role: (/^(role_)?user$/i.test(text(body, "role")) ? "user" : "agent") as "user" | "agent",
    parts,
    /** The texts of all parts, joined. */
    text: parts.map((part) => part.text ?? "").join(""),
    taskId: text(body, "taskId"),
    contextId: text(body, "contextId"),
    invocationId: INVOCATION_KEYS.map((key) => text(metadata, key)).find(Boolean) ?? "",
    metadata,
    /** The time of its commit, RFC 3339; empty if it is not known. */
    at: text(metadata, "taskplane.dev/time"),
    /** A piece of a text that still grows. */
    partial: PARTIAL_KEYS.some((key) => metadata[key] === true),
    /** A line of progress, which is no part of the conversation. */
    progress: metadata["kind"] === "status-message",
  };
}

/** Return the artifact for its JSON of either version. */
export function readPiece(body: Json): Piece {
  const parts = objects(body["parts"]).map(readPart);
  return { id: text(body, "artifactId"), name: text(body, "name"), description: text(body, "description"), parts };
}

/** Return the tool call or result that a part is; null if it is none. */
export function toolOf(part: Part): Tool | null {
  const kind = TOOL_KEYS.map((key) => part.metadata?.[key]).find((value) => value !== undefined);
  const data = object(part.data);
  if (!data || (kind !== "function_call" && kind !== "function_response")) return null;
  const called = kind === "function_call";
  return { called, id: text(data, "id"), name: text(data, "name"), body: data[called ? "args" : "response"] };
}

/** Return the figures that an agent told; none if it did not. */
export function usageOf(metadata: Json): Readonly<Record<string, number>> {
  const figures = Object.entries(object(metadata[USAGE]) ?? {});
  return Object.fromEntries(figures.filter((figure): figure is [string, number] => typeof figure[1] === "number"));
}

function readPart(body: Json): Part {
  const metadata = object(body["metadata"]);
  const file = object(body["file"]);
  const part: { -readonly [Key in keyof Part]: Part[Key] } = {};
  for (const key of ["text", "raw", "url", "filename", "mediaType"] as const)
    if (typeof body[key] === "string") part[key] = text(body, key);
  if (body["data"] !== undefined) part.data = body["data"];
  if (file) {
    const { name, mimeType, bytes, uri } = file;
    if (typeof name === "string") part.filename = name;
    if (typeof mimeType === "string") part.mediaType = mimeType;
    if (typeof bytes === "string") part.raw = bytes;
    if (typeof uri === "string") part.url = uri;
  }
  if (metadata) part.metadata = metadata;
  return part;
}

function readState(body: Json): { contextId: string; state: State; message: Message | null; at: string } {
  const status = object(body["status"]) ?? {};
  const message = object(status["message"]);
  return {
    contextId: text(body, "contextId"),
    state: stateOf(status["state"]),
    message: message && readMessage(message),
    at: text(status, "timestamp"),
  };
}

function readStatus(body: Json): StatusUpdate {
  const metadata = object(body["metadata"]) ?? {};
  return { kind: "status-update", taskId: text(body, "taskId"), ...readState(body), metadata };
}

function readArtifactUpdate(body: Json): ArtifactUpdate {
  return {
    kind: "artifact-update",
    taskId: text(body, "taskId"),
    contextId: text(body, "contextId"),
    artifact: readPiece(object(body["artifact"]) ?? {}),
    append: body["append"] === true,
    last: body["lastChunk"] === true,
  };
}
