/** What the reader is writing, for each session: kept in this browser until the server has it. */

import { signal } from "@preact/signals";
import type { Draft } from "../model/view";
import { kept } from "../state";

/** A file that waits to be sent. `url` shows it while it is an image. */
export type Attached = Draft["files"][number] & Readonly<{ size: number; url: string }>;

const KEY = "taskplane.draft.";

export const text = signal(kept.get(KEY));
export const files = signal<readonly Attached[]>([]);
/** Why the last file was not attached; empty: it was. */
export const refusal = signal("");

let owner = "";
let timer = 0;
/** This tab has changed the text since it was kept; what another tab keeps of it stays otherwise. */
let changed = false;

/** Show the draft of a session, after keeping the one before; an empty id: of a new conversation. */
export function openDraft(id: string): void {
  if (id === owner) return;
  keep();
  owner = id;
  text.value = kept.get(KEY + id);
  clearFiles();
}

/** The conversation that the draft belongs to has got an id. */
export function nameDraft(id: string): void {
  kept.set(KEY + owner, "");
  owner = id;
  changed = true;
  keep();
}

/** Change the text; it is written to storage a moment later. */
export function write(next: string): void {
  text.value = next;
  changed = true;
  clearTimeout(timer);
  timer = setTimeout(keep, 300);
}

/** Put a text back into the box, before what is there. */
export function putBack(given: string): void {
  if (!given || text.value === given) return;
  write(text.value.trim() ? `${given}\n\n${text.value}` : given);
}

/** Return which draft is in the box: the id of its session, or empty for that of a new conversation. */
export function drafted(): string {
  return owner;
}

/** Take from a draft what the server has accepted; what was typed in the meantime stays. */
export function taken(sent: string, draft: string): void {
  const other = kept.get(KEY + draft);
  if (draft === owner) takeOut(sent);
  else if (other.startsWith(sent)) kept.set(KEY + draft, other.slice(sent.length).trimStart());
  if (draft === owner) clearFiles();
}

/** Take from the box what it begins with. */
export function takeOut(given: string): void {
  if (given && text.value.startsWith(given)) write(text.value.slice(given.length).trimStart());
}

/** Take one file out, or all. */
export function clearFiles(one?: Attached): void {
  for (const file of files.value) if (file.url && (!one || file === one)) URL.revokeObjectURL(file.url);
  files.value = one ? files.value.filter((file) => file !== one) : [];
  refusal.value = "";
}

function keep(): void {
  clearTimeout(timer);
  if (changed) kept.set(KEY + owner, text.value);
  changed = false;
}

addEventListener("pagehide", keep);
