/** Messages of the user on their way to the server: what is sent, and what is shown of it meanwhile. */

import type { Json } from "./json";
import type { Draft, Failure, Part } from "./view";

/** References of a message to earlier tasks; at most one of the two is set. */
export type Continuation = Readonly<{ taskId: string; referenceTaskIds: readonly string[] }>;

export interface Outgoing {
  readonly id: string;
  readonly draft: Draft;
  /** Another message was under way when it was written, so the version that the user saw says nothing. */
  readonly behind: boolean;
  /** It was sent before, and the server may have it. */
  repeats: boolean;
  /** What the session showed at the last attempt, apart from messages on their way. */
  saw: string;
  /** Made once, so that a repetition is the same message; null before the first attempt. */
  message: Json | null;
  /** The idempotency key; another one if another message is sent under the same id. */
  key: string;
  /** What is shown of it. */
  sending: { readonly state: "sending" | "queued" | "failed"; readonly failure: Failure | null };
}

/** Return a random id; it works where `crypto.randomUUID` does not, over plain HTTP on another host. */
export function newId(): string {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Return the message for a draft as A2A 1.0 JSON. */
export function messageOf(messageId: string, draft: Draft, contextId: string, { taskId, referenceTaskIds }: Continuation): Json {
  const parts: Part[] = draft.text || !draft.files.length ? [{ text: draft.text }] : [];
  for (const { name, mediaType, base64 } of draft.files) parts.push({ raw: base64, filename: name, mediaType });
  const goesTo = taskId ? { taskId } : referenceTaskIds.length ? { referenceTaskIds } : {};
  return { messageId, role: "ROLE_USER", parts, contextId, ...goesTo };
}
