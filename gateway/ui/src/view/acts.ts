/** Drafts, and the acts of the reader in the open conversation, with what follows from them in the page. */

import { computed, effect, signal, untracked } from "@preact/signals";
import { newId } from "../model/events";
import { parsed } from "../model/json";
import type { OpenSession } from "../model/session";
import type { Draft, Failure, Message, Part } from "../model/view";
import { type Panel, kept, keptForTab, named, panel, route, selected, session, sessions, shown, view } from "../state";
import { strings } from "../strings";
import { toast, toastFailure } from "./toasts";

const TEXT = "taskplane.draft.";
const SENT = "taskplane.sent.";
const NEVER = { id: "", contextId: "", text: "", attached: "", cut: false };
/**
 * A message that is being written. `refusal`: why the last file was not attached. `sent`: the message that it was
 * sent as last, or that a rewind has cut; it is that one until the text is another. Files are gone after a reload.
 */
const EMPTY = { text: "", files: [] as Draft["files"], refusal: "", sent: NEVER };

/** The drafts that this tab knows, by their sessions; that of a new conversation has no id. Another object when one changes. */
const drafts = signal(new Map<string, typeof EMPTY>());
/** The session whose draft is in the box, by the address: a session has its id before its first message has left the box. */
const drafted = computed(() => route.value.session);
/** The draft in the box. */
export const draft = computed(() => drafts.value.get(drafted.value) ?? draftOf(drafted.value));
/** The example that was put into the box last. */
let example = "";

/** A message of the open session is on its way. */
export const sending = computed(() => view.value?.rows.some((row) => row.kind === "message" && row.sending?.state === "sending") ?? false);
/** Counts what the reader sent, so that the list shows its end. */
export const sent = signal(0);

/** Return a draft: as this tab knows it, or else had it last, or else as another one has kept it. */
function draftOf(id: string): typeof EMPTY {
  const text = keptForTab.get(TEXT + id) || kept.get(TEXT + id);
  const one = drafts.peek().get(id) ?? { ...EMPTY, text, sent: { ...NEVER, ...parsed(kept.get(SENT + id)) } };
  drafts.peek().set(id, one);
  return one;
}

// Another tab may have written what this one had not when it was here before.
effect(() => {
  const id = drafted.value;
  const known = drafts.peek().get(id);
  if (known && !known.text && !known.files.length) drafts.value = new Map([...drafts.peek()].filter(([one]) => one !== id));
});

/** Change a draft, that in the box unless another is named, and keep it. What another tab has made of it stays until there is a text. */
export function edit(change: Partial<typeof EMPTY>, id = drafted.peek()): void {
  const before = draftOf(id);
  const now = { ...before, ...change };
  drafts.value = new Map(drafts.peek()).set(id, now);
  if (now.sent !== before.sent) kept.set(SENT + id, now.sent.id && JSON.stringify(now.sent));
  if (now.text === before.text) return;
  keptForTab.set(TEXT + id, now.text);
  if (now.text || kept.get(TEXT + id) === before.text) kept.set(TEXT + id, now.text);
}

/** Put a text and files back into a draft, before what is there; it may be of a session that was left. */
function putBack({ text = "", files = [] }: Partial<Draft>, id = drafted.peek()): void {
  const there = draftOf(id);
  const has = without(text, there.text) !== there.text;
  const whole = has ? there.text : [text, there.text].filter((one) => one.trim()).join("\n\n");
  edit({ text: whole, files: [...new Set([...there.files, ...files])] }, id);
}

/** Return a text without its beginning, if what follows shows that it ends there; else it is another text now. */
function without(given: string, all: string, end = /^(\s|$)/): string {
  return all.startsWith(given) && end.test(all.slice(given.length)) ? all.slice(given.length).trimStart() : all;
}

/** Put an example into the box, in place of another one, and else before what is there, and the focus as well. */
export function offer(given: string): void {
  if (draft.peek().text === example) edit({ text: "" });
  putBack({ text: (example = given) });
  focusBox();
}

/** Return what tells a file from others, also over a reload. */
const fingerprint = ({ filename, raw }: Part): string => `${filename} ${raw?.length}`;

/** Take from a draft the message that the session has; what was typed and attached in the meantime stays. */
function taken(message: string, id: string): void {
  const { text, files, sent } = draftOf(id);
  if (!message || sent.id !== message) return;
  const rest = without(sent.text, text, sent.cut ? /^(\n\n|$)/ : undefined);
  const attached = sent.attached.split("\n");
  const left = files.filter((one) => sent.cut || !attached.includes(fingerprint(one)));
  edit({ text: rest, files: left, sent: NEVER, ...(!sent.cut && { refusal: "" }) }, id);
}

/** Forget what was written, in this browser too: somebody else uses it now. */
export function forgetDrafts(): void {
  keptForTab.forget(TEXT);
  kept.forget(TEXT, SENT, "taskplane.session");
  drafts.value = new Map();
}

/** Send what is in the box. What was sent before and is the same is sent again under its own id, over reloads too. */
export async function send(): Promise<void> {
  const { text, files, sent: last } = draft.value;
  const contextId = session.value?.id;
  if (!contextId || sending.value || (!text.trim() && !files.length)) return;
  const attached = files.map(fingerprint).join("\n");
  const repeats = last.id !== "" && !last.cut && last.text === text && ["", last.attached].includes(attached);
  const as = repeats ? last : { id: newId(), contextId, text, attached, cut: false };
  edit({ sent: as });
  await deliver((open) => open.send({ text, files }, { ...as, repeats }), as.id);
}

/** Send something that is not in the box, such as an answer; returns the failure if it was not taken. */
export function say(draft: Draft): Promise<Failure | null> {
  return deliver((open) => open.send(draft));
}

/** Send anew what a message said, with its files. */
export function sendAgain({ text, parts }: Message): void {
  focusBox();
  if (!sending.value) void say({ text, files: parts.filter(({ raw }) => raw) });
}

/** Send a message that failed again. If it is not there any more when that fails, its text goes back to its draft. */
export async function retry(id: string, text: string): Promise<void> {
  if (sending.value) return;
  focusBox();
  const [open, to] = [session.value, drafted.value];
  const failure = await deliver((open) => open.retry(id), id);
  if (failure && (session.value !== open || view.value?.rows.every(({ key }) => key !== id))) putBack({ text }, to);
}

async function deliver(act: (open: OpenSession) => Promise<Failure | null>, id = ""): Promise<Failure | null> {
  const open = session.value;
  if (!open) return null;
  const to = drafted.value;
  sent.value++;
  const failure = await act(open);
  if (!failure) taken(id, to);
  else if (failure.code === "REWOUND") edit({ sent: NEVER }, to);
  return failure;
}

/** Take back a message that failed, and put its text into the box, with its files. */
export function discard(id: string): void {
  putBack(session.value?.discard(id) ?? {});
  focusBox();
}

/** Rewind to a turn; what the reader had said in it goes to the box, until that message is shown again. */
export async function rewind(invocation: string): Promise<void> {
  const to = drafted.value;
  const result = view.value?.rewinding ? null : await session.value?.rewind(invocation);
  if (!result) return;
  if ("code" in result) toastFailure(result, strings.chat.rewind);
  else {
    // What is on its way has its own place in the conversation.
    if (sending.value) taken(draftOf(to).sent.id, to);
    putBack({ text: result.text }, to);
    edit({ sent: { ...NEVER, id: result.id, text: result.text, cut: true } }, to);
  }
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

/** Copy a text and say so; where the browser does not let the page, say what to do instead. */
export async function copy(text: string): Promise<void> {
  const done = await (navigator.clipboard?.writeText(text).then(() => true, () => byCommand(text)) ?? byCommand(text));
  toast(done ? strings.chat.copied : strings.chat.copyFailed, { ms: done ? 1500 : 8000 });
}

/** There is no clipboard for pages over plain HTTP on another host. */
function byCommand(text: string): boolean {
  const put = (event: ClipboardEvent) => {
    event.preventDefault();
    event.clipboardData?.setData("text/plain", text);
  };
  document.addEventListener("copy", put);
  const done = document.execCommand("copy");
  document.removeEventListener("copy", put);
  return done;
}

/** Put the focus into the message box, or to what is there in its place. */
export function focusBox(): void {
  (document.getElementById("message") ?? document.getElementById("main"))?.focus();
}

// The server may turn out to have a message though its answer never came: the session shows it, or has come to be.
effect(() => {
  const [rows, begun, id] = [view.value?.rows ?? [], sessions.rows.value, drafted.value];
  for (const one of [id, ""]) {
    const { id: message, contextId } = draftOf(one).sent;
    const there = message && rows.some((row) => row.kind === "message" && row.key === message && !row.sending);
    if (there || (!one && begun.some((row) => row.id === contextId))) untracked(() => taken(message, one));
  }
});

// The new conversation that is shown has become a session; or a session is gone, and what was begun there is not.
effect(() => {
  const { status, id = "" } = view.value ?? {};
  const begun = id && route.value.name === "chat" && !route.value.session && shown === "";
  untracked(() => {
    if (begun) {
      edit(draftOf(""), id);
      edit(EMPTY, "");
      named(id);
    } else if (id && status === "missing") {
      putBack(draftOf(id), "");
      edit(EMPTY, id);
    }
  });
});

// Messages that a session still had to send when it is left go back to its draft.
let open: OpenSession | null = null;
effect(() => {
  const left = open;
  open = session.value;
  if (!left || !open) return;
  const { id, rows } = left.view.peek();
  for (const { key } of rows) {
    const back = left.discard(key);
    if (back) untracked(() => putBack(back, id));
  }
});
