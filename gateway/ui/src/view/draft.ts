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
  keep();
}

/** Change the text; it is written to storage a moment later. */
export function write(next: string): void {
  text.value = next;
  clearTimeout(timer);
  timer = setTimeout(keep, 300);
}

/** Put a text back into the box, before what is there. */
export function putBack(given: string): void {
  if (!given || text.value === given) return;
  write(text.value.trim() ? `${given}\n\n${text.value}` : given);
}

/** Take from the box what the server has accepted; what was typed in the meantime stays. */
export function taken(sent: string): void {
  takeOut(sent);
  clearFiles();
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
  kept.set(KEY + owner, text.value);
}

addEventListener("pagehide", keep);
