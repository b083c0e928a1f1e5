/** Copying, also where the browser has no clipboard for pages: over plain HTTP on another host. */

import { strings } from "../strings";
import { toast } from "./toasts";

/** Copy a text and say so; without permission say what to do instead. */
export async function copy(text: string): Promise<void> {
  const done = await (navigator.clipboard?.writeText(text).then(() => true, () => byCommand(text)) ?? byCommand(text));
  toast(done ? strings.chat.copied : strings.chat.copyFailed, { ms: done ? 1500 : 8000 });
}

function byCommand(text: string): boolean {
  const focused = document.activeElement;
  const box = document.createElement("textarea");
  box.value = text;
  box.className = "sr-only";
  document.body.append(box);
  box.select();
  const done = document.execCommand("copy");
  box.remove();
  if (focused instanceof HTMLElement) focused.focus();
  return done;
}
