/** The state of the whole page: one signal for each thing that views read, and the acts that change them. */

import { batch, computed, signal, untracked } from "@preact/signals";
import { Api, type Config } from "./model/api";
import { attempt } from "./model/json";
import type { Records } from "./model/records";
import { OpenSession } from "./model/session";
import { SessionList } from "./model/sessions";
import { slots } from "./model/slots";
import { Stored } from "./model/stored";

// With a name of its own, since Vite reads `new URL("...", import.meta.url)` as the address of an asset.
const script = import.meta.url;
/** The root of the gateway: the script lies in `ui/assets/` below it, and in `src/` of the development server. */
export const ROOT = new URL("../../", script);

const NOWHERE = { name: "unknown" as "chat" | "agent" | "ops" | "unknown", session: "", agent: "", task: "", message: "", event: "" };
/** A place of the page; what it does not have is empty. Without an agent `agent` is the list of them. */
export type Route = Readonly<typeof NOWHERE>;
export const PANELS = ["tasks", "artifacts", "events"] as const;
export type Panel = (typeof PANELS)[number];

const KEY = "taskplane.key";

/** What this browser keeps: drafts, the theme and the session that was open last; and what this tab keeps of its own. */
export const kept = new Stored(() => localStorage);
export const keptForTab = new Stored(() => sessionStorage);
export const key = signal(keptForTab.get(KEY));
/** What the server says of itself, and of the caller; without one since the key was taken back. */
export const config = signal<Config | null>(null);
export const route = signal<Route>(read(location));
export const panel = signal<Panel | null>(null);
/** The sessions are shown over the conversation, where there is no room beside it. */
export const drawer = signal(false);
const slim = matchMedia("(width < 900px)");
/** The panel is shown over the conversation. */
export const narrow = signal(slim.matches);
slim.addEventListener("change", () => (narrow.value = slim.matches));
/** The sessions or the panel lie above the conversation. */
const covered = computed(() => (route.value.name === "chat" && narrow.value && panel.value !== null) || drawer.value);
/** The task, artifact or message that the panel shows; empty: none in particular. */
export const selected = signal("");
/** The agent of new conversations; empty: none is served. See `chosen.ts`. */
export const agent = signal("");
export const session = signal<OpenSession | null>(null);
export const view = computed(() => session.value?.view.value ?? null);

export const api = new Api(ROOT, () => key.peek(), () => (config.value &&= { ...config.value, caller: null }));
export const channel = "BroadcastChannel" in globalThis ? new BroadcastChannel("taskplane") : undefined;
export const sessions = new SessionList(api, channel);
export const mayRead = computed(() => config.value?.caller?.mayRead ?? false);
export const mayWrite = computed(() => config.value?.caller?.mayWrite ?? false);
export const mayOperate = computed(() => config.value?.caller?.mayOperate ?? false);

// Undefined over plain HTTP on another host.
const places = slots(navigator.locks as LockManager | undefined);
/** Of how many sessions this tab knows what it received and sent, and of each that was left how much. */
const KNOWN = 20;
const NEWEST = 1_000;
let known = new Map<string, Records>();
/** The id of the session that is shown, empty for a new conversation, which had no address when it was begun; null: none yet. */
export let shown: string | null = null;

/** Show a session; an empty id: a new conversation with the agent of new ones. */
export function show(id: string): void {
  shown = id;
  sessions.keep(id);
  const left = session.value;
  left?.close();
  if (left) left.records.list = left.records.list.slice(-NEWEST);
  if (left) known = new Map([...known].filter(([one]) => one !== left.id).slice(1 - KNOWN)).set(left.id, left.records);
  const records = known.get(id);
  session.value = new OpenSession(api, { id, agent: agent.value, slots: places, stored: kept, channel, records });
  void session.value.open();
}

/** Show nothing of what was shown: somebody else uses the page now. */
export function forgetShown(): void {
  session.value?.close();
  [session.value, panel.value, selected.value, shown] = [null, null, "", null];
  known = new Map();
  sessions.clear();
}

/** Show the session of the address, unless it is shown already; to who may only operate, Operations. */
export function showRoute(): void {
  const at = route.value;
  if (mayOperate.value && !mayRead.value && at.name !== "ops") return go({ name: "ops" }, true);
  if (at.name !== "chat") return;
  // It may have come to be since, by an import.
  if (at.session !== shown || untracked(() => view.value?.status === "missing")) untracked(() => show(at.session));
  if (!at.task && !at.event) return;
  selected.value = at.task;
  panel.value = at.event ? "events" : "tasks";
}

/** The new conversation that is shown has become a session: give the page its address. */
export function named(id: string): void {
  shown = id;
  go(chat(id), true);
}

/** Return the address of a place in the page, below whatever path the gateway is served. */
export function address(to: Partial<Route>): string {
  const { name, session, agent, task } = to;
  const parts = name === "agent" ? ["agents", agent] : name === "ops" ? ["ops", task && "tasks", task] : [session && "sessions", session];
  const url = new URL(["ui", ...parts.flatMap((part) => (part ? [encodeURIComponent(part)] : []))].join("/"), ROOT);
  for (const part of ["task", "message", "event"] as const) if (name === "chat" && to[part]) url.searchParams.set(part, to[part]);
  return url.href;
}

/** Go to a place or an address; `replace` leaves no entry in the history of the browser. The sessions above close. */
export function go(to: Partial<Route> | string, replace = false): void {
  const href = typeof to === "string" ? to : address(to);
  drawer.value = false;
  // What was above has just closed, and the browser is about to go back: see `cover`.
  if (history.state && !covered.value) return addEventListener("popstate", () => go(href, replace), { once: true });
  history[replace || history.state || href === location.href ? "replaceState" : "pushState"](null, "", href);
  route.value = read(location);
}

/**
 * Have an entry in the history, the last one and with a state, while something lies above the conversation: Back closes
 * that, and what closes it otherwise goes back. Forward to such an entry comes back, too.
 */
export function cover(): void {
  if (covered.value === !!history.state) return;
  if (history.state) history.back();
  else history.pushState(true, "");
}

/** Return the place of a conversation. */
export function chat(session: string, at: Partial<Route> = {}): Route {
  return { ...NOWHERE, ...at, name: "chat", session };
}

/** Return the place of an address. */
export function read(at: Location | URL): Route {
  const path = at.pathname.replace(ROOT.pathname, "").replace(/\/$/, "");
  const [ui, kind = "", id = "", task = "", ...more] = path.split("/").map((part) => attempt(() => decodeURIComponent(part), part));
  if ((ui === "" || ui === "ui") && !kind) return chat("");
  if (kind === "sessions" && id && !task) return chat(id, Object.fromEntries(new URLSearchParams(at.search)));
  if (kind === "agents" && !task) return { ...NOWHERE, name: "agent", agent: id };
  if (kind === "ops" && (!id || (id === "tasks" && task && !more.length))) return { ...NOWHERE, name: "ops", task };
  return NOWHERE;
}

/** Use a key from now on; `remember`: for as long as the tab lives, over reloads. */
export function signIn(value: string, remember: boolean): void {
  key.value = value;
  keptForTab.set(KEY, remember ? value : "");
}

/** The address of the route: a link to a task opens the panel when it is followed, not when the panel was closed. */
let there = "";
route.subscribe(() => (there = location.href));
const arrive = () => {
  if (!history.state && covered.value) [panel.value, drawer.value] = [null, false];
  if (location.href !== there) route.value = read(location);
  else cover();
};
addEventListener("popstate", () => batch(arrive));
view.subscribe((now) => now && sessions.note(now));
drawer.subscribe((opened) => void (opened && sessions.load()));
addEventListener("pagehide", () => sessions.leave());
