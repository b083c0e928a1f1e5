/** The keys of the page, and the list of them. While something is typed, none but Escape holds. */

import { signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { chat, go, mayOperate, panel, session, type Panel } from "../state";
import { strings } from "../strings";
import { focusBox } from "./acts";
import { IconButton } from "./icons";

/** The sessions are shown over the conversation, where there is no room beside it. */
export const drawer = signal(false);
/** The list of keys is open. */
export const help = signal(false);

/** Tell whether the sessions lie above the conversation. */
const narrow = () => matchMedia("(width < 700px)").matches;
const PANELS: Readonly<Record<string, Panel>> = { t: "tasks", a: "artifacts", e: "events" };

/** Open a part of the panel, or close it if it is open. */
export function togglePanel(name: Panel): void {
  panel.value = panel.value === name ? null : name;
}

/** Listen to the keys of the page; `newChat` is what `n` does. */
export function useKeys(newChat: () => void): void {
  const before = useRef("");
  useEffect(() => {
    const pressed = (event: KeyboardEvent) => {
      if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
      if (event.key === "Escape") return escape(event);
      const target = event.target;
      if (target instanceof HTMLElement && target.closest("input, textarea, select, dialog, [contenteditable]")) return;
      const act = acts(before.current)[event.key];
      before.current = event.key;
      if (!act) return;
      event.preventDefault();
      act();
    };
    const acts = (last: string): Readonly<Record<string, () => void>> => ({
      "?": () => (help.value = true),
      "/": () => {
        drawer.value = narrow();
        setTimeout(() => document.getElementById("search")?.focus());
      },
      n: newChat,
      m: focusBox,
      End: () => document.querySelector<HTMLElement>(".to-end")?.click(),
      ...Object.fromEntries(Object.entries(PANELS).map(([name, part]) => [name, () => togglePanel(part)])),
      ...(last === "g" && {
        ...(mayOperate.value && { o: () => go({ name: "ops", task: "" }) }),
        c: () => go(chat(session.value?.view.value.id ?? "")),
      }),
    });
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, [newChat]);
}

function escape(event: KeyboardEvent): void {
  if (!document.querySelector("dialog[open]") && closeTop()) event.preventDefault();
}

/** Close what lies above the conversation or beside it; return whether there was something. */
export function closeTop(): boolean {
  if (drawer.value) drawer.value = false;
  else if (panel.value) panel.value = null;
  else return false;
  return true;
}

/** The list of keys, as a dialog. */
export function Help() {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    if (help.value) dialog.current?.showModal();
  }, [help.value]);
  if (!help.value) return null;
  return (
    <dialog
      ref={dialog}
      class="help"
      aria-labelledby="help-title"
      onClose={() => (help.value = false)}
      onClick={(event) => event.target === event.currentTarget && event.currentTarget.close()}
    >
      <header>
        <h2 id="help-title">{strings.keys.title}</h2>
        <IconButton icon="close" label={strings.chat.close} onClick={() => dialog.current?.close()} />
      </header>
      <dl>
        {strings.keys.list.map(([keys, what]) => (
          <div key={keys}>
            <dt>{keys.split(" ").map((one) => <kbd key={one}>{one}</kbd>)}</dt>
            <dd>{what}</dd>
          </div>
        ))}
      </dl>
    </dialog>
  );
}
