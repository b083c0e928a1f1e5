/** The state of the whole page: one signal for each thing that views read, and the acts that change them. */

import { computed, signal, untracked } from "@preact/signals";
import { Api, type Config } from "./model/api";
import { OpenSession } from "./model/session";
import { SessionList } from "./model/sessions";
import { browserSlots } from "./model/slots";
import { Stored } from "./model/stored";
import type { SessionView } from "./model/view";

// With a name of its own, since Vite reads `new URL("...", import.meta.url)` as the address of an asset.
const script = import.meta.url;
/** The root of the gateway: the script lies in `ui/assets/` below it, and in `src/` of the development server. */
export const ROOT = new URL("../../", script);

export type Route =
  | { readonly name: "chat"; readonly session: string; readonly task: string; readonly message: string; readonly event: string }
  | { readonly name: "agent"; readonly agent: string }
  | { readonly name: "ops"; readonly task: string }
  | { readonly name: "unknown" };

export type Panel = "tasks" | "artifacts" | "events";

const KEY = "taskplane.key";

export const key = signal(stored());
export const config = signal<Config | null>(null);
export const route = signal<Route>(read(location));
export const panel = signal<Panel | null>(null);
/** The task, artifact or message that the panel shows; empty: none in particular. */
export const selected = signal("");
export const agent = signal("");
export const session = signal<OpenSession | null>(null);
export const view = signal<SessionView | null>(null);

export const api = new Api(ROOT, { key: () => key.value });
export const channel = "BroadcastChannel" in globalThis ? new BroadcastChannel("taskplane") : undefined;
/** What this browser keeps: drafts and the session that was open last. */
export const kept = new Stored(() => localStorage);
export const sessions = new SessionList(api, channel);
export const mayWrite = computed(() => config.value?.caller?.mayWrite ?? false);
export const mayOperate = computed(() => config.value?.caller?.mayOperate ?? false);

let unsubscribe = (): void => undefined;
/** The id of the session that is shown; null: none yet. */
let shown: string | null = null;

/** Show a session; an empty id: a new conversation with the chosen agent. */
export function show(id: string): void {
  shown = id;
  unsubscribe();
  session.value?.close();
  const opened = new OpenSession(api, { id, agent: agent.value, slots: browserSlots(), stored: kept, ...(channel ? { channel } : {}) });
  unsubscribe = opened.onChange(() => {
    view.value = opened.view;
    sessions.note(opened.view);
  });
  session.value = opened;
  view.value = opened.view;
  void opened.open();
}

/** Show the session of the address, unless it is shown already. */
export function showRoute(): void {
  const at = route.value;
  if (at.name !== "chat") return;
  if (at.session !== shown) untracked(() => show(at.session));
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
export function address(to: Route): string {
  const parts = to.name === "agent" ? ["agents", to.agent] : to.name === "ops" ? ["ops", ...(to.task ? ["tasks", to.task] : [])] : [];
  const query = new URLSearchParams();
  if (to.name === "chat") {
    if (to.session) parts.push("sessions", to.session);
    for (const name of ["task", "message", "event"] as const) if (to[name]) query.set(name, to[name]);
  }
  const path = ["ui", ...parts.map(encodeURIComponent)].join("/");
  return new URL(query.size ? `${path}?${query}` : path, ROOT).href;
}

/** Go to a place; `replace` leaves no entry in the history of the browser. */
export function go(to: Route, replace = false): void {
  history[replace ? "replaceState" : "pushState"](null, "", address(to));
  route.value = to;
}

/** Return the place of a conversation. */
export function chat(session: string, at: { task?: string; message?: string; event?: string } = {}): Route {
  return { name: "chat", session, task: at.task ?? "", message: at.message ?? "", event: at.event ?? "" };
}

export function read(at: Location | URL): Route {
  const base = ROOT.pathname;
  const path = at.pathname.startsWith(base) ? at.pathname.slice(base.length) : at.pathname;
  const [ui, kind = "", id = "", ...more] = path.replace(/\/$/, "").split("/").map(decodeURIComponent);
  const query = new URLSearchParams(at.search);
  if ((ui === "" || ui === "ui") && !kind) return chat("");
  if (kind === "sessions" && id)
    return chat(id, { task: query.get("task") ?? "", message: query.get("message") ?? "", event: query.get("event") ?? "" });
  if (kind === "agents" && id) return { name: "agent", agent: id };
  if (kind === "ops") return { name: "ops", task: id === "tasks" ? (more[0] ?? "") : "" };
  return { name: "unknown" };
}

/** Use a key from now on; `remember`: for as long as the tab lives, over reloads. */
export function signIn(value: string, remember: boolean): void {
  key.value = value;
  try {
    if (remember && value) sessionStorage.setItem(KEY, value);
    else sessionStorage.removeItem(KEY);
  } catch {
    // Storage may be blocked; the key is in memory.
  }
}

function stored(): string {
  try {
    return sessionStorage.getItem(KEY) ?? "";
  } catch {
    return "";
  }
}

addEventListener("popstate", () => {
  route.value = read(location);
});
