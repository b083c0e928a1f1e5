/** What an open session knows, and the view that is made of it: by a timer, as often as it can be seen. */

import { signal } from "@preact/signals-core";
import { type Api, agentPath } from "./api";
import { Conversation } from "./conversation";
import { type Outgoing, newId } from "./outgoing";
import { Records } from "./records";
import { Rows } from "./rows";
import type { Slots } from "./slots";
import { ACTIVE, PAUSED } from "./states";
import type { Stored } from "./stored";
import type { Pauses } from "./stream";
import type { Failure, TaskInfo } from "./view";

export interface SessionOptions {
  readonly id?: string;
  readonly agent: string;
  readonly slots: Slots;
  readonly channel?: BroadcastChannel | undefined;
  readonly pauses?: Pauses;
  /** Where the session is kept as the last one, with its tasks, until it can be read again. */
  readonly stored?: Stored;
  /** Milliseconds after which a hidden page drops its stream. */
  readonly hiddenAfter?: number;
}

/** What a page shows of a session. Parts that did not change keep their identity, so that they are compared by reference. */
export type SessionView = ReturnType<SessionState["made"]>;

const PAINT = 33;
const PAINT_HIDDEN = 200;

export class SessionState {
  /** What is shown, made anew after changes, at most every 33 ms (200 ms in a hidden page). */
  readonly view;
  /** What came and was sent. */
  readonly records = new Records();
  protected readonly conversation: Conversation;
  /** The part of the view that is simply set. */
  protected readonly told = {
    /** `missing`: deleted, or another user's. `refused`: see `failure`. */
    status: "new" as "new" | "loading" | "ready" | "missing" | "refused",
    failure: null as Failure | null,
    /** `live`: a stream is open. `waiting`: for a slot. `lost`: reconnecting. `offline`: the browser says so. */
    connection: "idle" as "idle" | "live" | "waiting" | "lost" | "offline",
    agent: "",
    title: "",
    /** The version that the page has seen; 0: none. */
    version: 0,
    loadingOlder: false,
    rewinding: false,
    /** The last rewind can be undone. */
    canUndo: false,
    /** The task that the next message replies to by the user's choice; empty: by the rules. */
    replyTo: "",
    /** Something that the user should know and that has no other place; null without. */
    notice: null as { readonly code: string; readonly text: string } | null,
  };
  /** Messages of the user that the server does not have. Another map, once one of them has changed. */
  protected outgoing: ReadonlyMap<string, Outgoing> = new Map();
  protected readonly stopping = new Set<string>();
  protected readonly closed = new AbortController();
  protected online = true;
  protected visible = true;
  readonly #rows = new Rows();
  #painted = 0;
  #paint: ReturnType<typeof setTimeout> | undefined;

  constructor(
    protected readonly api: Api,
    protected readonly options: SessionOptions,
  ) {
    const { id = "", agent, stored } = options;
    const last = stored?.last();
    this.conversation = new Conversation(id || newId(), last?.contextId === id ? last.tasks : []);
    Object.assign(this.told, { agent, status: id ? "loading" : "new" });
    this.view = signal(this.made());
  }

  protected get id(): string {
    return this.conversation.contextId;
  }

  protected get running(): TaskInfo | null {
    return this.conversation.taskList.findLast(({ state }) => ACTIVE.has(state)) ?? null;
  }

  protected agentOf(taskId: string): string {
    return this.conversation.tasks.find(taskId)?.agent || this.told.agent;
  }

  /** Set what the user may set: what the next message replies to, and that no notice is shown. */
  set(change: Partial<SessionState["told"]>): void {
    Object.assign(this.told, change);
    this.changed();
  }

  protected tell({ code, message }: Failure): void {
    this.set({ notice: { code, text: message } });
  }

  /** Note how a message of the user fares. */
  protected mark(out: Outgoing, state: Outgoing["sending"]["state"], failure: Failure | null = null): void {
    out.sending = { state, failure };
    this.outgoing = new Map(this.outgoing).set(out.id, out);
    this.changed();
  }

  /** Forget messages of the user that are not to be sent any more. */
  protected forget(gone: (id: string) => boolean): void {
    this.outgoing = new Map([...this.outgoing].filter(([id]) => !gone(id)));
    this.changed();
  }

  /** Make the view anew soon: by a timer, which also works in a hidden page. */
  protected changed(): void {
    const every = this.visible ? PAINT : PAINT_HIDDEN;
    this.#paint ??= setTimeout(() => this.show(), Math.max(0, every - (performance.now() - this.#painted)));
  }

  /** Make the view anew at once. */
  protected show(): void {
    clearTimeout(this.#paint);
    this.#paint = undefined;
    if (this.closed.signal.aborted) return;
    this.#painted = performance.now();
    const { tasks } = this.view.peek();
    const made = (this.view.value = this.made());
    if (made.tasks === tasks || made.status !== "ready") return;
    const agentEndpoint = new URL(agentPath(made.agent), this.api.root).href;
    this.options.stored?.keepLast({ contextId: made.id, agentEndpoint, tasks: made.tasks });
  }

  /** Tell other tabs that the session was changed. */
  protected broadcast(): void {
    this.options.channel?.postMessage({ session: this.id });
  }

  /** Return what there is to show now. */
  made() {
    const { conversation, outgoing, running, told } = this;
    const { messages, live, progress, artifacts, taskList: tasks, hasOlder, unknown } = conversation;
    const latest = tasks.at(-1);
    const paused = latest && PAUSED.has(latest.state) ? latest : null;
    const { rewinding } = told;
    return {
      ...(told as Readonly<SessionState["told"]>),
      /** Empty until the server has made the session. */
      id: told.status === "new" ? "" : this.id,
      rows: this.#rows.of({ messages, live, artifacts, tasks, paused, outgoing, hasOlder, rewinding }),
      hasOlder,
      /** Oldest first, without superseded ones. */
      tasks,
      artifacts,
      /** The newest line of progress of the running task; empty without one. */
      progress: (running && progress.get(running.id)) ?? "",
      /** The newest task that is submitted or working. */
      running,
      /** A cancel was sent and not answered yet. */
      stopping: running !== null && this.stopping.has(running.id),
      paused,
      /** Events of unknown shape so far. */
      unknown,
    };
  }
}
