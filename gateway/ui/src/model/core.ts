/** What an open session knows, shared by its reader and its acts, and the view that is made of it. */

import { type Api, agentPath } from "./api";
import { Conversation } from "./conversation";
import { type Outgoing, newId } from "./outgoing";
import { Records } from "./records";
import { Rows, type Sending } from "./rows";
import type { Slots } from "./slots";
import { PAUSED } from "./states";
import type { Stored } from "./stored";
import type { Pauses } from "./stream";
import { latestRunning } from "./tasks";
import type { SessionView, TaskInfo } from "./view";

/** What is used of a BroadcastChannel. */
export interface Channel {
  postMessage(message: unknown): void;
  addEventListener(type: "message", listener: (event: MessageEvent) => void): void;
  removeEventListener(type: "message", listener: (event: MessageEvent) => void): void;
}

export interface SessionOptions {
  readonly id?: string;
  readonly agent: string;
  readonly slots: Slots;
  readonly channel?: Channel;
  readonly now?: () => number;
  readonly pauses?: Pauses;
  /** Where the session is kept as the last one, with its tasks, until it can be read again. */
  readonly stored?: Stored;
  /** Milliseconds after which a hidden page drops its stream. */
  readonly hiddenAfter?: number;
}

type Plain = "agent" | "title" | "version" | "status" | "failure" | "connection" | "loadingOlder" | "rewinding";
/** The part of the view that is simply set. */
export type Told = Pick<SessionView, Plain | "canUndo" | "replyTo" | "notice">;

const PAINT = 33;
const PAINT_HIDDEN = 200;
const BEGIN = {
  title: "",
  version: 0,
  failure: null,
  connection: "idle",
  loadingOlder: false,
  rewinding: false,
  canUndo: false,
  replyTo: "",
  notice: null,
} as const;

export class Core {
  readonly conversation: Conversation;
  readonly records: Records;
  readonly outgoing = new Map<string, Outgoing>();
  readonly stopping = new Set<string>();
  readonly closed = new AbortController();
  readonly listeners = new Set<() => void>();
  readonly now: () => number;
  /** The server has the session. */
  known: boolean;
  online = true;
  visible = true;
  told: Told;
  view: SessionView;
  readonly #rows = new Rows();
  #sending: ReadonlyMap<string, Sending> = new Map();
  #painted = 0;
  #paint: ReturnType<typeof setTimeout> | undefined;

  constructor(
    readonly api: Api,
    readonly options: SessionOptions,
  ) {
    this.now = options.now ?? Date.now;
    this.records = new Records(this.now);
    const last = options.stored?.last();
    this.conversation = new Conversation(options.id || newId(), last?.contextId === options.id ? last?.tasks : []);
    this.known = Boolean(options.id);
    this.told = { ...BEGIN, agent: options.agent, status: this.known ? "loading" : "new" };
    this.view = this.#build();
  }

  get id(): string {
    return this.conversation.contextId;
  }

  get running(): TaskInfo | null {
    return latestRunning(this.conversation.taskList);
  }

  agentOf(taskId: string): string {
    return this.conversation.tasks.find(taskId)?.agent || this.told.agent;
  }

  set(change: Partial<Told>): void {
    this.told = { ...this.told, ...change };
    this.changed();
  }

  /** Note that messages on their way have changed. */
  sent(): void {
    this.#sending = new Map([...this.outgoing].map(([id, { state, failure }]) => [id, { state, failure }]));
    this.changed();
  }

  /** Make the view anew soon: by a timer, which also works in a hidden page, and never more often than it is seen. */
  changed(): void {
    if (this.#paint !== undefined) return;
    const every = this.visible ? PAINT : PAINT_HIDDEN;
    this.#paint = setTimeout(() => this.show(), Math.max(0, every - (performance.now() - this.#painted)));
  }

  /** Make the view anew and tell it, at once. */
  show(): void {
    clearTimeout(this.#paint);
    this.#paint = undefined;
    if (this.closed.signal.aborted) return;
    this.#painted = performance.now();
    const { tasks } = this.view;
    this.view = this.#build();
    if (this.view.tasks !== tasks && this.told.status === "ready") this.#keep();
    for (const listener of this.listeners) listener();
  }

  broadcast(what: string): void {
    this.options.channel?.postMessage({ session: this.id, what });
  }

  #keep(): void {
    const agentEndpoint = new URL(agentPath(this.told.agent), this.api.root).href;
    this.options.stored?.keepLast({ contextId: this.id, agentEndpoint, tasks: this.view.tasks });
  }

  #build(): SessionView {
    const { running } = this;
    const { messages, live, progress, artifacts, taskList: tasks, hasOlder, unknown } = this.conversation;
    const latest = tasks.at(-1);
    const paused = latest && PAUSED.has(latest.state) ? latest : null;
    const { rewinding } = this.told;
    return {
      ...this.told,
      id: this.known ? this.id : "",
      rows: this.#rows.of({ messages, live, artifacts, tasks, paused, sending: this.#sending, hasOlder, rewinding }),
      hasOlder,
      tasks,
      artifacts,
      progress: (running && progress.get(running.id)) ?? "",
      running,
      stopping: running !== null && this.stopping.has(running.id),
      paused,
      unknown,
    };
  }
}
