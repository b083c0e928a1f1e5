/**
 * The elements of a stream, and their classification (T1, T7), and the messages that are sent. A2A 1.0 wraps each element in
 * one key, 0.3 marks each with `kind`; no other code of the model knows the difference.
 */

import type { Failure } from "./http";
import { type Json, object, objects, text } from "./json";
import { stateOf } from "./tasks";

export const REWIND_BEFORE = "kagent_rewind_before_invocation_id";
export const INTERRUPTED = "interrupted";
const USAGE = "taskplane.dev/usage";
const INVOCATION_KEYS = ["kagent_invocation_id", "adk_invocation_id"];
const PARTIAL_KEYS = ["kagent_adk_partial", "adk_partial"];
const CONTENTS = ["text", "raw", "url"] as const;
const TEXTS = [...CONTENTS, "filename", "mediaType"] as const;
const TOOL_KEYS = ["kagent_type", "adk_type"];

/**
 * A part of a message or an artifact, in the form of A2A 1.0. `raw` is base64. `unknown`: all of a part without a content
 * known to this page.
 */
export type Part = Readonly<Partial<Record<(typeof TEXTS)[number], string>> & { data?: unknown; metadata?: Json; unknown?: unknown }>;

export type Message = Readonly<ReturnType<typeof readMessage>>;

type Sending = Readonly<{ state: "sending" | "queued" | "failed"; failure: Failure | null }>;

/** What the user wants to send. */
export interface Draft {
  readonly text: string;
  readonly files: readonly Part[];
  /** A credential for a task that waits for one: sent in the metadata of the request, kept and shown nowhere. */
  readonly secret?: string;
}

/** An artifact, or a piece of one. */
export type Piece = Readonly<ReturnType<typeof readPiece>>;

/** An element of a stream. Members that its kind does not have are empty. */
export type Event = Readonly<ReturnType<typeof read>>;

const KINDS = { task: "task", statusUpdate: "status-update", artifactUpdate: "artifact-update", message: "message" } as const;
type Kind = (typeof KINDS)[keyof typeof KINDS];

/**
 * Return the event for JSON: by wrapper key, then by `kind`, then if it resembles a task (a `history` that is not empty
 * and a string `id` or `contextId`), else unknown. A JSON-RPC response is unwrapped first.
 */
export function classify(data: unknown): Event {
  const outer = object(data) ?? {};
  const body = object(outer["result"]) ?? outer;
  for (const [wrapper, kind] of Object.entries(KINDS)) {
    const inner = object(body[wrapper]);
    if (inner) return read(kind, inner);
  }
  const marked = Object.values(KINDS).find((kind) => body["kind"] === kind);
  const named = typeof body["id"] === "string" || typeof body["contextId"] === "string";
  const kind = marked ?? (named && objects(body["history"]).length ? "task" : "unknown");
  return read(kind, kind === "unknown" ? {} : body);
}

/** Return the event of a kind for its JSON of either version; missing members are tolerated. */
export function read(kind: Kind | "unknown", body: Json) {
  const status = object(body["status"]) ?? {};
  const message = kind === "message" ? body : object(status["message"]);
  const metadata = object(body["metadata"]) ?? {};
  const artifacts = kind === "artifact-update" ? [object(body["artifact"]) ?? {}] : objects(body["artifacts"]);
  const figures = Object.entries(object(metadata[USAGE]) ?? {});
  return {
    kind,
    taskId: text(body, kind === "task" ? "id" : "taskId"),
    state: stateOf(status["state"]),
    at: text(status, "timestamp"),
    /** The code of a failure. */
    code: text(metadata, "reason") || text(object(message?.["metadata"]) ?? {}, "reason"),
    message: message && readMessage(message),
    messageId: text(message ?? {}, "messageId"),
    history: objects(body["history"]).map(readMessage),
    artifacts: artifacts.map(readPiece),
    append: body["append"] === true,
    last: body["lastChunk"] === true,
    /** Figures that the agent told. */
    usage: figures.filter((figure): figure is [string, number] => typeof figure[1] === "number"),
    /** The place of a task in the log; empty for the session task. */
    cursor: text(metadata, "taskplane.dev/cursor"),
  };
}

/** Return the message for its JSON of either version; in ProtoJSON of 0.3 the parts are called `content`. */
export function readMessage(body: Json) {
  const metadata = object(body["metadata"]) ?? {};
  const given = readParts(body["parts"]);
  const parts = given.length ? given : readParts(body["content"]);
  return {
    /** Empty for a message without an id. */
    id: text(body, "messageId"),
    role: (/^(role_)?user$/i.test(text(body, "role")) ? "user" : "agent") as "user" | "agent",
    parts,
    /** The texts of all parts, joined. */
    text: parts.map((part) => part.text ?? "").join(""),
    taskId: text(body, "taskId"),
    invocationId: INVOCATION_KEYS.map((key) => text(metadata, key)).find(Boolean) ?? "",
    metadata,
    /** The time of its commit, RFC 3339; empty if it is not known. */
    at: text(metadata, "taskplane.dev/time"),
    /** A piece of a text that still grows. */
    partial: PARTIAL_KEYS.some((key) => metadata[key] === true),
    /** A line of progress, which is no part of the conversation. */
    progress: metadata["kind"] === "status-message",
    /** How a message of the user fares that the server does not have; null once it has it. */
    sending: null as Sending | null,
  };
}

/** Return whether a chat keeps the message: it is no line of progress, no piece, and not empty. */
export function lasts({ progress, partial, parts }: Message): boolean {
  return !progress && !partial && parts.length > 0;
}

/** Return the artifact for its JSON of either version. */
export function readPiece(body: Json) {
  return {
    id: text(body, "artifactId"),
    name: text(body, "name"),
    description: text(body, "description"),
    /** The newest message of its task that had begun when it came, and when that was; empty if it is not told. */
    after: text(body, "afterMessageId"),
    at: text(body, "createdAt"),
    parts: readParts(body["parts"]),
  };
}

/** Return how many parts have a form that this page does not know. */
export const unknownParts = (parts: readonly Part[]): number => parts.filter((part) => "unknown" in part).length;

/** Return how much of an event has a form that this page does not know: all of it, or so many parts in it. */
export function unknownIn({ kind, message, history, artifacts }: Event): number {
  if (kind === "unknown") return 1;
  const those = [...(message ? [message] : []), ...history, ...artifacts];
  return those.reduce((sum, { parts }) => sum + unknownParts(parts), 0);
}

/** Return the tool call (`called`, with its arguments as `body`) or the result (its response) that a part is; null if none. */
export function toolOf(part: Part) {
  const kind = TOOL_KEYS.map((key) => part.metadata?.[key]).find((value) => value !== undefined);
  const data = object(part.data);
  if (!data || (kind !== "function_call" && kind !== "function_response")) return null;
  const called = kind === "function_call";
  return { called, id: text(data, "id"), name: text(data, "name"), body: data[called ? "args" : "response"] };
}

function readParts(list: unknown): readonly Part[] {
  return Array.isArray(list) ? list.map(readPart) : [];
}

function readPart(given: unknown): Part {
  const body = object(given) ?? {};
  const { bytes: raw, uri: url, name: filename, mimeType: mediaType } = object(body["file"]) ?? {};
  const { data, ...told }: Json = { raw, url, filename, mediaType, ...body };
  const metadata = object(told["metadata"]);
  const texts = TEXTS.filter((key) => typeof told[key] === "string").map((key) => [key, told[key]]);
  const known = data !== undefined || CONTENTS.some((key) => typeof told[key] === "string");
  return {
    ...Object.fromEntries(texts),
    ...(data !== undefined && { data }),
    ...(metadata && { metadata }),
    ...(!known && { unknown: given }),
  };
}

/** Return a random id; it works where `crypto.randomUUID` does not, over plain HTTP on another host. */
export function newId(): string {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Return the message for a draft as A2A 1.0 JSON; `more`: what else it has. */
export function messageOf(messageId: string, { text, files }: Draft, contextId: string, more: Json): Json {
  const said = text || !files.length ? [{ text }] : [];
  return { messageId, role: "ROLE_USER", parts: [...said, ...files], contextId, ...more };
}
