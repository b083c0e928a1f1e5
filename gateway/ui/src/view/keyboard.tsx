/** The keys of the page, and the list of them. While something is typed, none but Escape holds. */

import { signal } from "@preact/signals";
import { PANELS, chat, drawer, go, kept, mayOperate, mayRead, narrow, panel, route, session, show, type Panel } from "../state";
import { strings } from "../strings";
import { focusBox, offer } from "./acts";
import { chooseAgent } from "./chosen";
import { Facts, IconButton } from "./controls";

const OFF = "taskplane.keys";
/** Keys without Ctrl act, which a reader who speaks to the browser may not want (WCAG 2.1.4). */
const off = signal(kept.get(OFF) !== "");
off.subscribe((none) => kept.set(OFF, none ? "off" : ""));
/** Begin a new conversation with the agent of new ones. */
export const newChat = () => begin();

/** Begin a new conversation, with an agent that is chosen for new ones by that, and with a text in the box. */
export function begin(name = "", text = ""): void {
  if (name) chooseAgent(name);
  if (narrow.value) panel.value = null;
  show("");
  go(chat(""), route.value.name === "chat" && !route.value.session);
  setTimeout(() => offer(text));
}

/** Open a part of the panel, or close it if it is open; `enter` it, for somebody who uses the keys. */
export function togglePanel(name: Panel, enter = false): void {
  panel.value = panel.value === name ? null : name;
  if (enter) setTimeout(() => document.querySelector<HTMLElement>(".details")?.focus());
}

function search(): void {
  if ((drawer.value = matchMedia("(width < 700px)").matches)) panel.value = null;
  setTimeout(() => document.getElementById("search")?.focus());
}

/** Show the list of keys. */
export function showHelp(): void {
  document.querySelector<HTMLDialogElement>("#help")?.showModal();
}

/** Press a button; return whether there is one. */
function click(selector: string): boolean {
  const button = document.querySelector<HTMLElement>(selector);
  button?.click();
  return button !== null;
}

const { chat: words, keys: more, panel: { parts } } = strings;
/** The keys, what they are for, and what they do where nothing else sees to it; false: the browser sees to it. */
const KEYS: readonly (readonly [keys: string, what: string, act?: () => unknown])[] = [
  ["?", more.help, showHelp],
  ["n", words.newChat, newChat],
  ["/", words.search, search],
  ["m", more.write, focusBox],
  ["Enter", words.send],
  ["Shift Enter", more.line],
  ...PANELS.map((part) => [part[0]!, parts[part], () => togglePanel(part, true)] as const),
  ["g a", strings.agents.title, () => mayRead.value && go({ name: "agent", agent: "" })],
  ["g o", words.operations, () => mayOperate.value && go({ name: "ops", task: "" })],
  ["g c", words.conversation, () => go(chat(session.value?.view.value.id ?? ""))],
  // Beside the conversation it scrolls what has the focus.
  ["End", words.toEnd, () => click("body:not(:has(.details :focus)) .to-end")],
  ["F2", more.rename, () => click(".session:focus-within button:first-child")],
  ["Delete", more.remove, () => click(".session:focus-within button:last-child")],
  ["Esc", more.close, closeTop],
];

/** Return the keys of what the caller may use. */
const usable = () => (mayRead.value ? KEYS : KEYS.filter(([keys]) => /\?|g o|Esc/.test(keys)));

/** The key that was pressed before. */
let before = "";

function press(event: KeyboardEvent): void {
  const { target } = event;
  const key = event.key === "Escape" ? "Esc" : event.key;
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  const typing = target instanceof HTMLElement && target.closest("input, textarea, select, dialog, [contenteditable]");
  // The browser closes what is open, and clears a search.
  const searches = target instanceof HTMLInputElement && target.type === "search" && target.value;
  if (key === "Esc" ? searches || document.querySelector(":popover-open, dialog[open]") : typing || (off.value && key.length === 1)) return;
  const acts = new Map(usable().map(([keys, , act]) => [keys, act]));
  const act = acts.get(`${before} ${key}`) ?? acts.get(key);
  before = key;
  if (act && act() !== false) event.preventDefault();
}

addEventListener("keydown", press);

/** Close what lies above the conversation or beside it; return whether there was something. */
export function closeTop(): boolean {
  const there = drawer.value || panel.value !== null;
  [drawer.value, panel.value] = [false, null];
  return there;
}

/** The list of keys. */
export function Help() {
  return (
    <dialog id="help" aria-labelledby="help-title" onClick={({ target, currentTarget: box }) => target === box && box.close()}>
      <header>
        <h2 id="help-title">{words.shortcuts}</h2>
        <form method="dialog"><IconButton icon="close" type="submit" label={words.close} /></form>
      </header>
      <Facts rows={usable().map(([keys, what]) => [keys.split(" ").map((one) => <kbd key={one}>{one}</kbd>), what])} />
      <label class="choice">
        <input type="checkbox" checked={!off.value} onChange={(event) => (off.value = !event.currentTarget.checked)} />
        {more.letters}
      </label>
    </dialog>
  );
}
