/** The keys of the page, and the list of them. While something is typed, none but Escape holds. */

import { signal } from "@preact/signals";
import { PANELS, agent, chat, drawer, go, kept, mayOperate, mayRead, narrow, panel, route, session, show, type Panel } from "../state";
import { strings } from "../strings";
import { focusBox } from "./acts";
import { Dialog, Facts } from "./controls";
import { offer } from "./draft";

const OFF = "taskplane.keys";
/** Keys without Ctrl act, which a reader who speaks to the browser may not want (WCAG 2.1.4). */
const off = signal(kept.get(OFF) !== "");
off.subscribe((none) => kept.set(OFF, none ? "off" : ""));
/** The list of keys is open. */
export const help = signal(false);

/** Begin a new conversation. */
export const newChat = () => begin(agent.peek());

/** Begin a new conversation with an agent, with a text in the box if one is given. */
export function begin(name: string, text = ""): void {
  agent.value = name;
  if (narrow.value) panel.value = null;
  show("");
  go(chat(""), route.value.name === "chat" && !route.value.session);
  setTimeout(() => {
    offer(text);
    focusBox();
  });
}

/** Let new conversations be with an agent, and so the one that has not begun. */
export function chooseAgent(name: string): void {
  agent.value = name;
  if (route.value.name === "chat" && !route.value.session) show("");
}

/** Open a part of the panel, or close it if it is open. */
export function togglePanel(name: Panel): void {
  panel.value = panel.value === name ? null : name;
}

/** Do that for somebody who uses the keys, and goes on in the panel. */
function intoPanel(name: Panel): void {
  togglePanel(name);
  setTimeout(() => document.querySelector<HTMLElement>(".details")?.focus());
}

function search(): void {
  if ((drawer.value = matchMedia("(width < 700px)").matches)) panel.value = null;
  setTimeout(() => document.getElementById("search")?.focus());
}

/** Show the newest message, unless the key scrolls what has the focus beside the conversation. */
function scrollToEnd(): boolean {
  const button = document.querySelector<HTMLElement>("body:not(:has(.details :focus)) .to-end");
  button?.click();
  return button !== null;
}

const { chat: words, keys: more, panel: { parts } } = strings;
/** The keys, what they are for, and what they do where nothing else sees to it; false: the browser sees to it. */
const KEYS: readonly (readonly [keys: string, what: string, act?: () => unknown])[] = [
  ["?", more.help, () => (help.value = true)],
  ["n", words.newChat, newChat],
  ["/", words.search, search],
  ["m", more.write, focusBox],
  ["Enter", words.send],
  ["Shift Enter", more.line],
  ...PANELS.map((part) => [part[0]!, parts[part], () => intoPanel(part)] as const),
  ["g o", words.operations, () => mayOperate.value && go({ name: "ops", task: "" })],
  ["g c", words.conversation, () => go(chat(session.value?.view.value.id ?? ""))],
  ["End", words.toEnd, scrollToEnd],
  ["F2", more.rename],
  ["Delete", more.remove],
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
  if (key === "Esc" ? document.querySelector("dialog[open]") : typing || (off.value && key.length === 1)) return;
  const acts = new Map(usable().map(([keys, , act]) => [keys, act]));
  const act = acts.get(`${before} ${key}`) ?? acts.get(key);
  before = key;
  if (act && act() !== false) event.preventDefault();
}

/** Listen to the keys of the page; return how to end that. */
export function listen(): () => void {
  addEventListener("keydown", press);
  return () => removeEventListener("keydown", press);
}

/** Close what lies above the conversation or beside it; return whether there was something. */
export function closeTop(): boolean {
  const there = drawer.value || panel.value !== null;
  if (drawer.value) drawer.value = false;
  else panel.value = null;
  return there;
}

/** The list of keys, as a dialog. */
export function Help() {
  return help.value && (
    <Dialog class="help" title={words.shortcuts} close={() => (help.value = false)}>
      <Facts kind="keys" rows={usable().map(([keys, what]) => [keys.split(" ").map((one) => <kbd key={one}>{one}</kbd>), what])} />
      <label class="choice">
        <input type="checkbox" checked={!off.value} onChange={(event) => (off.value = !event.currentTarget.checked)} />
        {more.letters}
      </label>
    </Dialog>
  );
}
