/** What the reader is writing, for each session: kept in this browser until the server has it. */

import { effect, signal, untracked } from "@preact/signals";
import { parsed } from "../model/json";
import type { OpenSession } from "../model/session";
import type { Draft, Message } from "../model/view";
import { kept, keptForTab, named, route, session, sessions, shown, view } from "../state";

/** A file that waits to be sent. `url` shows it while it is an image. */
export type Attached = Draft["files"][number] & Readonly<{ size: number; url: string }>;

const KEY = "taskplane.draft.";
const SENT = "taskplane.sent.";
const NEVER = { id: "", contextId: "", text: "", attached: "", cut: false };

export const text = signal(stored(""));
export const files = signal<readonly Attached[]>([]);
/** Why the last file was not attached; empty: it was. */
export const refusal = signal("");

/** Which draft is in the box: the id of its session, or empty for that of a new conversation. */
export const drafted = signal("");
/** The messages that drafts were sent as, or come from, as far as this tab knows; another tab may have settled what is stored. */
const sent = new Map<string, typeof NEVER>();
/** Runs while this tab has changed the text since it was kept; what another tab keeps of it stays otherwise. */
let timer = 0;
/** The files of the other drafts of this tab. */
const aside = new Map<string, readonly Attached[]>();
/** The example that was put into the box last. */
let example = "";

/** Show the draft of a session, after keeping the one before; an empty id: of a new conversation. */
export function openDraft(id: string): void {
  if (id === drafted.value) return;
  keep();
  text.value = stored(id);
  aside.set(drafted.value, files.value);
  files.value = aside.get(id) ?? [];
  refusal.value = "";
  drafted.value = id;
}

/** Return the text of a draft: as this tab had it last, or else another one. */
function stored(id: string): string {
  return keptForTab.get(KEY + id) || kept.get(KEY + id);
}

/** Return the text of a draft as it is now. */
const textOf = (draft: string) => (draft === drafted.value ? text.value : stored(draft));

/** Keep the text of a draft for this tab, and for others; what another one has made of it stays until there is a text. */
function store(id: string, all: string): void {
  const shared = keptForTab.get(KEY + id) === kept.get(KEY + id);
  keptForTab.set(KEY + id, all);
  if (all || shared) kept.set(KEY + id, all);
}

/** The conversation that the draft belongs to has got an id. */
export function nameDraft(id: string): void {
  store(drafted.value, "");
  drafted.value = id;
  store(id, text.value);
}

/** Take the draft of a session that is gone to a new conversation, before what was begun there. */
function saveDraft(id: string): void {
  openDraft(id);
  putBack(text.value, "");
  text.value = stored("");
  nameDraft("");
}

/** Change the text of a draft; that of the one in the box is written to storage a moment later. */
export function write(next: string, draft = drafted.value): void {
  if (draft !== drafted.value) return store(draft, next);
  text.value = next;
  clearTimeout(timer);
  timer = setTimeout(keep, 300);
}

/** Put a text back into a draft, before what is there; it may be of a session that was left. */
export function putBack(given: string, draft = drafted.value): void {
  const there = textOf(draft);
  if (!given || there === given || without(given, there) !== there) return;
  write(there.trim() ? `${given}\n\n${there}` : given, draft);
}

/** Put an example into the box, in place of another one, and else before what is there. */
export function offer(given: string): void {
  if (text.value === example) write("");
  putBack((example = given));
}

/** Return the message that a draft was sent as last; empty if that is settled. */
export function lastSent(draft: string): typeof NEVER {
  if (!sent.has(draft)) sent.set(draft, { ...NEVER, ...parsed(kept.get(SENT + draft)) });
  return sent.get(draft)!;
}

/** Note the message that a draft is sent as: it is that one until the text is another. */
export function mark(message: typeof NEVER, draft = drafted.value): void {
  sent.set(draft, message);
  kept.set(SENT + draft, message.id && JSON.stringify(message));
}

/** Put what a rewind has cut into a draft, until that message is shown again. */
export function putCut({ id, text }: Pick<Message, "id" | "text">, draft: string): void {
  putBack(text, draft);
  mark({ ...NEVER, id, text, cut: true }, draft);
}

/** Forget that a draft was sent: it is a new message from now on. */
export const forgetSent = (draft: string) => mark(NEVER, draft);

/** Forget what was written, in this browser too: somebody else uses it now. */
export function forgetDrafts(): void {
  text.value = "";
  sent.clear();
  clearFiles();
  aside.clear();
  keptForTab.forget(KEY);
  kept.forget(KEY, SENT, "taskplane.session");
}

/** Take from a draft the message that the session has; what was typed in the meantime stays. */
export function taken(id: string, draft: string): void {
  const message = lastSent(draft);
  if (!id || message.id !== id) return;
  forgetSent(draft);
  const all = textOf(draft);
  const rest = without(message.text, all, message.cut ? /^(\n\n|$)/ : undefined);
  if (rest !== all) write(rest, draft);
  if (!message.cut) aside.delete(draft);
  if (!message.cut && draft === drafted.value) clearFiles();
}

/** Return a text without its beginning, if what follows shows that it ends there; else it is another text now. */
function without(given: string, all: string, end = /^(\s|$)/): string {
  return all.startsWith(given) && end.test(all.slice(given.length)) ? all.slice(given.length).trimStart() : all;
}

/** Take one file out, or all. */
export function clearFiles(one?: Attached): void {
  for (const file of files.value) if (file.url && (!one || file === one)) URL.revokeObjectURL(file.url);
  files.value = one ? files.value.filter((file) => file !== one) : [];
  refusal.value = "";
}

function keep(): void {
  clearTimeout(timer);
  if (timer) store(drafted.value, text.value);
  timer = 0;
}

// The server may turn out to have a message though its answer never came: the session shows it, or has come to be.
effect(() => {
  const [rows, begun] = [view.value?.rows ?? [], sessions.rows.value];
  for (const draft of new Set([drafted.value, ""])) {
    const { id, contextId } = lastSent(draft);
    const there = id && rows.some((row) => row.kind === "message" && row.key === id && !row.sending);
    if (there || (!draft && begun.some((row) => row.id === contextId))) untracked(() => taken(id, draft));
  }
});

// The new conversation that is shown has become a session.
effect(() => {
  const id = view.value?.id;
  if (!id || route.value.name !== "chat" || route.value.session || shown !== "") return;
  untracked(() => {
    mark(lastSent(""), id);
    forgetSent("");
    nameDraft(id);
    named(id);
  });
});

effect(() => {
  const { status, id = "" } = view.value ?? {};
  if (status === "missing" && id) untracked(() => saveDraft(id));
});

// Messages that a session still had to send when it is left go back to its draft.
let open: OpenSession | null = null;
effect(() => {
  const left = open;
  open = session.value;
  if (!left || !open) return;
  const { id, rows } = left.view.peek();
  for (const { key } of rows) untracked(() => putBack(left.discard(key)?.text ?? "", id));
});

addEventListener("pagehide", keep);
