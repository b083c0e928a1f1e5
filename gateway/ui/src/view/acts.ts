/** What the reader can do with the open conversation, with what follows from it in the page. */

import { computed, signal } from "@preact/signals";
import { sizeOf } from "../model/artifacts";
import { newId } from "../model/outgoing";
import type { OpenSession } from "../model/session";
import type { Draft, Failure, Message, Part } from "../model/view";
import { panel, selected, session, view, type Panel } from "../state";
import { strings } from "../strings";
import { drafted, files, forgetSent, lastSent, mark, putBack, putCut, taken, text, write } from "./draft";
import { toastFailure } from "./toasts";

/** A message of the open session is on its way. */
export const sending = computed(() => view.value?.rows.some((row) => row.kind === "message" && row.sending?.state === "sending") ?? false);
/** Counts what the reader sent, so that the list shows its end. */
export const sent = signal(0);

/** Send what is in the box. What was sent before and is the same is sent again under its own id, over reloads too. */
export async function send(): Promise<void> {
  const draft = { text: text.value, files: files.value.map(({ name, mediaType, base64 }) => ({ name, mediaType, base64 })) };
  const contextId = session.value?.id;
  if (!contextId || sending.value || (!draft.text.trim() && !draft.files.length)) return;
  const last = lastSent(drafted.value);
  const attached = files.value.map(({ name, size }) => `${name} ${size}`).join();
  // Files are gone after a reload.
  const repeats = last.id !== "" && !last.cut && last.text === draft.text && ["", last.attached].includes(attached);
  const as = repeats ? last : { id: newId(), contextId, text: draft.text, attached, cut: false };
  mark(as);
  await deliver((open) => open.send(draft, { ...as, repeats }), as.id);
}

/** Send something that is not in the box, such as an answer; returns the failure if it was not taken. */
export function say(draft: Draft): Promise<Failure | null> {
  return deliver((open) => open.send(draft), "");
}

/** Send anew what a message said, with its files. */
export function sendAgain({ text, parts }: Message): void {
  const file = ({ raw: base64, filename: name = "", mediaType = "" }: Part) => (base64 ? [{ name, mediaType, base64 }] : []);
  focusBox();
  if (!sending.value) void say({ text, files: parts.flatMap(file) });
}

/** Send a message that failed again; the box loses the same text. */
export async function retry(id: string, given: string): Promise<void> {
  if (sending.value) return;
  focusBox();
  const open = session.value;
  const draft = drafted.value;
  const failure = await deliver((open) => open.retry(id), id);
  const left = session.value !== open;
  if (failure && (left || view.value?.rows.every(({ key }) => key !== id))) putBack(given, draft);
  else if (!failure && !left && text.value === given) write("");
}

async function deliver(act: (open: OpenSession) => Promise<Failure | null>, id: string): Promise<Failure | null> {
  const open = session.value;
  if (!open) return null;
  const draft = drafted.value;
  sent.value++;
  const failure = await act(open);
  if (!failure) taken(id, draft);
  else if (failure.code === "REWOUND") forgetSent(draft);
  return failure;
}

/** Take back a message that failed, and put its text into the box, with its files. */
export function discard(id: string): void {
  const { text = "", files: given = [] } = session.value?.discard(id) ?? {};
  putBack(text);
  files.value = [...files.value, ...given.map((file) => ({ ...file, size: sizeOf({ raw: file.base64 }), url: "" }))];
  focusBox();
}

/** Rewind to a turn; what the reader had said in it goes to the box. */
export async function rewind(invocation: string): Promise<void> {
  const draft = drafted.value;
  const result = view.value?.rewinding ? null : await session.value?.rewind(invocation);
  if (!result) return;
  if ("code" in result) toastFailure(result, strings.chat.rewind);
  else putCut(result, draft);
  focusBox();
}

/** Undo the last rewind. */
export async function undo(): Promise<void> {
  const failure = await session.value?.undo();
  if (failure) toastFailure(failure, strings.chat.undoRewind);
  focusBox();
}

/** Let the next message refer to an older task. */
export function reply(taskId: string): void {
  session.value?.set({ replyTo: taskId });
  focusBox();
}

/** Show a task or an artifact in the panel. */
export function reveal(part: Panel, id: string): void {
  selected.value = id;
  panel.value = part;
}

/** Put the focus into the message box, where there is one. */
export function focusBox(): void {
  document.getElementById("message")?.focus();
}
