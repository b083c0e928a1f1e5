/**
 * One session that is loaded and followed: the stream of its running task, or else the changes of the session. What is
 * shown of it is made anew by a timer, as often as it can be seen.
 */

import { signal } from "@preact/signals-core";
import { type Api, agentPath } from "./api";
import { Conversation } from "./conversation";
import { type Event, classify, newId, read, unknownIn } from "./events";
import { type SseEvent, failureOf, sleep } from "./http";
import { text } from "./json";
import { type LogEvent, Records, isOutput } from "./records";
import { Rows } from "./rows";
import type { Slots } from "./slots";
import { ACTIVE, AT_REST, PAUSED } from "./tasks";
import type { Stored } from "./stored";
import type { Failure, TaskInfo } from "./view";

export interface SessionOptions {
  readonly id?: string;
  readonly agent: string;
  readonly slots: Slots;
  readonly channel?: BroadcastChannel | undefined;
  readonly pauses?: typeof PAUSES;
  /** Where the session is kept as the last one, with its tasks, until it can be read again. */
  readonly stored?: Stored;
  /** Milliseconds after which a hidden page drops its stream. */
  readonly hiddenAfter?: number;
  /** What came and was sent while the session was open before. */
  readonly records?: Records | undefined;
}

/** What a page shows of a session. Parts that did not change keep their identity, so that they are compared by reference. */
export type SessionView = ReturnType<FollowedSession["made"]>;

const PAINT = 33;
const HIDDEN_AFTER = 30_000;
/** Milliseconds before the first and at most before each further attempt. */
const PAUSES = { first: 250, most: 5_000 };
const NEVER = 2 ** 31 - 1;
/** Tasks whose artifacts are shown at once; those of older ones are loaded when they are asked for. */
const RECENT = 12;
const TRIES = 4;
/** Milliseconds that a log may say nothing while its first output is looked for. */
const LOG_PATIENCE = 10_000;

export class FollowedSession {
  /** What is shown, made anew after changes, at most every 33 ms; a hidden page has slower timers. */
  readonly view;
  /** What came and was sent. */
  readonly records: Records;
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
    notice: null as Failure | null,
  };
  protected readonly stopping = new Set<string>();
  protected readonly closed = new AbortController();
  protected online = true;
  /** Whether there is a network is known. */
  protected settled: Promise<void> = Promise.resolve();
  /** Rises when the history becomes another one, so that an older answer is not taken. */
  protected epoch = 0;
  readonly #rows = new Rows();
  readonly #cursors = new Map<string, string>();
  /** Tasks whose artifacts were listed. */
  readonly #listed = new Set<string>();
  #counted: Readonly<{ messages: unknown; of: unknown; count: number }> = { messages: null, of: null, count: 0 };
  #turn = new AbortController();
  /** The task whose stream is read; empty: the session; null: nothing yet. */
  #target: string | null = null;
  /** How often that was begun since something came. */
  #attempts = 0;
  /** It was hidden for so long that nothing is read. */
  #dormant = false;
  #hides: ReturnType<typeof setTimeout> | undefined;
  #paint: ReturnType<typeof setTimeout> | undefined;

  constructor(
    protected readonly api: Api,
    protected readonly options: SessionOptions,
  ) {
    const { id = "", agent, stored, records = new Records() } = options;
    this.records = records;
    const last = stored?.last();
    this.conversation = new Conversation(id || newId(), last?.contextId === id ? last.tasks : [], () => {
      this.set({ status: "ready", canUndo: false, replyTo: "", notice: null });
      this.altered();
    });
    Object.assign(this.told, { agent, status: id ? "loading" : "new" });
    this.view = signal(this.made());
  }

  /** The id that the session has, or gets with its first message. */
  get id(): string {
    return this.conversation.contextId;
  }

  protected get running(): TaskInfo | null {
    return this.conversation.taskList.findLast(({ state }) => ACTIVE.has(state)) ?? null;
  }

  protected agentOf(taskId: string): string {
    return this.conversation.tasks.find(taskId)?.agent || this.told.agent;
  }

  /** Load the session, if there is one already, and follow it until `close`. Return when it was loaded or refused. */
  async open(): Promise<void> {
    const heard = ({ data }: MessageEvent<{ session?: string }>) => data.session === this.id && void this.refresh();
    this.options.channel?.addEventListener("message", heard, { signal: this.closed.signal });
    if (this.told.status !== "new") await this.load();
    this.show();
    void this.#run();
  }

  /** End everything; nothing is shown any more. */
  close(): void {
    this.closed.abort();
    this.#turn.abort();
  }

  /** Read the session again, for instance since it was changed elsewhere. */
  async refresh(): Promise<void> {
    const { status } = this.told;
    if (status === "new") return;
    if (status !== "ready") this.set({ status: "loading" });
    await this.load();
    this.steer();
  }

  /** Load the artifacts of tasks that have ended, with the numbers of their versions; `newest`: of at most so many. */
  async loadArtifacts(newest = Infinity): Promise<void> {
    const { api, conversation, closed } = this;
    const tasks = conversation.taskList.filter((task) => AT_REST.has(task.state)).slice(-newest);
    for (const { id } of tasks.reverse()) {
      if (closed.signal.aborted || this.#listed.has(id)) continue;
      this.#listed.add(id);
      const found = await this.persist(() => api.artifacts(id)).catch(() => void this.#listed.delete(id));
      for (const { piece, versions } of found ?? []) conversation.artifactsOf.put(id, piece, true, versions);
    }
    this.changed();
  }

  /** Load the figures that the agent told of a task, which no list tells. */
  async loadUsage(taskId: string): Promise<void> {
    const { usage } = read("task", await this.api.task(taskId));
    this.conversation.tasks.amend(taskId, { usage: Object.fromEntries(usage) });
    this.changed();
  }

  /** Load when a task said or made something first, by the times of the server: its log has them, and no list. */
  async loadFirstOutput(taskId: string): Promise<void> {
    let first = true;
    for await (const { body } of this.api.events(taskId, "", this.closed.signal, LOG_PATIENCE)) {
      const event = body as unknown as LogEvent;
      // A document has no log, and an older one may have lost its beginning.
      if (first && event.kind !== "created") break;
      first = false;
      if (!isOutput(event)) continue;
      this.conversation.tasks.amend(taskId, { firstOutputAt: event.time });
      return this.changed();
    }
    this.conversation.tasks.amend(taskId, { firstOutputAt: "" });
    this.changed();
  }

  setVisible(visible: boolean): void {
    clearTimeout(this.#hides);
    const settle = (): void => {
      if (this.#dormant === visible) this.#turn.abort();
      this.#dormant = !visible;
    };
    this.#hides = setTimeout(settle, visible ? 0 : (this.options.hiddenAfter ?? HIDDEN_AFTER));
  }

  /** Take what the browser says of its network. It does not know that a server on this machine needs none: that is tried. */
  setOnline(claim: boolean): void {
    const settled = (this.settled = (claim ? Promise.resolve(true) : this.api.reachable()).then((online) => {
      if (settled !== this.settled || online === this.online) return;
      this.online = online;
      this.set({ connection: online ? "lost" : "offline" });
      this.#turn.abort();
    }));
  }

  /** Set what the user may set: what the next message replies to, and that no notice is shown. */
  set(change: Partial<FollowedSession["told"]>): void {
    Object.assign(this.told, change);
    this.changed();
  }

  /** Make the view anew soon: by a timer, which also works in a hidden page. */
  protected changed(): void {
    this.#paint ??= setTimeout(() => this.show(), PAINT);
  }

  /** Make the view anew at once. */
  protected show(): void {
    clearTimeout(this.#paint);
    this.#paint = undefined;
    if (this.closed.signal.aborted) return;
    const { tasks } = this.view.peek();
    const made = (this.view.value = this.made());
    if (made.tasks === tasks || made.status !== "ready") return;
    const agentEndpoint = new URL(agentPath(made.agent), this.api.root).href;
    this.options.stored?.keepLast({ contextId: made.id, agentEndpoint, tasks: made.tasks });
  }

  /** Return what there is to show now. */
  made() {
    const { conversation, running, told } = this;
    const { messages, live, progress, artifacts, artifactsOf, taskList: tasks, hasOlder } = conversation;
    const paused = tasks.slice(-1).find(({ state }) => PAUSED.has(state)) ?? null;
    return {
      ...(told as Readonly<FollowedSession["told"]>),
      /** Empty until the server has made the session. */
      id: told.status === "new" ? "" : this.id,
      rows: this.#rows.of({ messages, live, artifacts: artifactsOf.of, tasks, paused, hasOlder, rewinding: told.rewinding }),
      /** Oldest first, without superseded ones. */
      tasks,
      artifacts,
      /** The number of events, and of parts that are shown, of forms unknown to this page. */
      unknown: conversation.unknown + this.#unknownParts(),
      /** The newest line of progress of the running task; empty without one. */
      progress: (running && progress.get(running.id)) ?? "",
      /** The newest task that is submitted or working. */
      running,
      /** A cancel was sent and not answered yet. */
      stopping: running !== null && this.stopping.has(running.id),
      paused,
      hasOlder,
    };
  }

  /** Return how many unknown parts are shown, counted anew only if that may have changed. */
  #unknownParts(): number {
    const { messages, artifactsOf } = this.conversation;
    const { of } = artifactsOf;
    if (this.#counted.messages !== messages || this.#counted.of !== of)
      this.#counted = { messages, of, count: this.conversation.unknownParts };
    return this.#counted.count;
  }

  /** Let the stream be of what matters now, and show what an act has changed. */
  protected steer(): void {
    if (this.#moved) this.#turn.abort();
    this.show();
  }

  /** Another stream than the one that is read matters now. */
  get #moved(): boolean {
    return this.#target !== (this.running?.id ?? "");
  }

  /** Tell other tabs that the session may have changed, and forget the version, unless a stream tells the new one. */
  protected altered(): void {
    this.options.channel?.postMessage({ session: this.id });
    if (this.#target !== "" || this.told.connection !== "live") this.set({ version: 0 });
  }

  /** Read the session, its newest messages and its tasks; do nothing if that fails: a stream that is live tells them later. */
  protected load(): Promise<void> {
    const live = (error: unknown): boolean => this.told.connection === "live" && failureOf(error).retryable;
    return this.#load().catch((error: unknown) => void (live(error) || this.#refused(error)));
  }

  /** Read a task as the server has it; return whether it is at rest. */
  protected async fetch(taskId: string): Promise<boolean> {
    const body = await this.api.task(taskId);
    const task = read("task", body);
    if (!AT_REST.has(task.state)) return false;
    this.records.add("received", "task", body, { taskId, unknown: unknownIn(task) });
    if (task.cursor) this.#cursors.set(taskId, task.cursor);
    this.apply(task);
    return true;
  }

  /** Take what a message made. A task whose stream is being read tells the rest itself. */
  protected answered(event: Event, messageId: string): void {
    if (event.kind !== "task") return this.apply(event);
    const { taskId: id, state, cursor, history } = event;
    const known = this.conversation.tasks.find(id);
    const message = history.find((one) => one.id === messageId);
    const follows = known && !AT_REST.has(known.state) && this.#cursors.get(id);
    if (follows && message) return this.apply({ ...event, kind: "message", message });
    this.#cursors.set(id, state === "submitted" || AT_REST.has(state) ? cursor : "");
    this.apply(event);
  }

  protected apply(event: Event, answersRewind = false): void {
    this.conversation.apply(event, answersRewind);
    this.changed();
  }

  /** Do what has one effect however often it is done, until it is answered or was tried often enough. */
  protected persist<Value>(act: () => Promise<Value>, attempt = 1): Promise<Value> {
    return act().catch(async (error: unknown) => {
      const { retryable, status } = failureOf(error);
      if (!retryable || (status > 0 && status < 500) || attempt === TRIES) throw error;
      await sleep((this.options.pauses?.first ?? 250) * 2 ** attempt, this.closed.signal);
      return this.persist(act, attempt + 1);
    });
  }

  async #run(): Promise<void> {
    while (!this.closed.signal.aborted) {
      const turn = (this.#turn = new AbortController());
      const mayRead = this.online && !this.#dormant && ["loading", "ready"].includes(this.told.status);
      if (mayRead) await this.options.slots(turn, () => this.set({ connection: "waiting" }), () => this.#read(turn.signal));
      else {
        if (this.online) this.set({ connection: "idle" });
        await sleep(NEVER, turn.signal);
      }
    }
  }

  async #load(): Promise<void> {
    const { api, id, conversation, closed, told, epoch } = this;
    const there = conversation.messages.filter(({ sending }) => !sending);
    const known = new Set([...there, ...conversation.tasks.list].map((one) => one.id));
    const session = await api.session(id);
    const [page, tasks] = await Promise.all([api.messages(id), api.taskInfos(id)]);
    if (epoch !== this.epoch || closed.signal.aborted) return;
    conversation.reload(page.messages, page.before !== null, tasks, (one) => !known.has(one));
    this.set({ ...session, agent: session.agent || told.agent, status: "ready", failure: null });
    const latest = conversation.taskList.at(-1);
    const shown = !conversation.hasOlder || conversation.messages.some(({ taskId }) => taskId === latest?.id);
    if (latest && shown && AT_REST.has(latest.state)) await this.fetch(latest.id).catch(() => false);
    void this.loadArtifacts(RECENT);
  }

  #refused(error: unknown): void {
    const failure = failureOf(error);
    if (failure.retryable) return this.set({ connection: this.online ? "lost" : "offline" });
    // So that it is followed again once it can be read.
    this.#target = null;
    this.set({ status: failure.status === 404 ? "missing" : "refused", failure, connection: "idle" });
  }

  /**
   * Load the session, unless it was; then read the stream of what matters until it ends, or another one matters. Return when
   * it may be read again: after a pause that grows for as long as nothing comes.
   */
  async #read(signal: AbortSignal): Promise<void> {
    const { api, id, records } = this;
    const { first, most } = this.options.pauses ?? PAUSES;
    const request = { signal, opened: () => this.set({ connection: "live" }) };
    let wait = 0;
    try {
      if (this.told.status === "loading") await this.#load();
      const task = (this.#target = this.running?.id ?? "");
      const cursor = this.#cursors.get(task) ?? "";
      for await (const event of task ? api.subscribe(this.agentOf(task), task, cursor, request) : api.watch(id, request)) {
        if (signal.aborted) return;
        this.#attempts = 0;
        await (task ? this.#take(event, task) : this.#watched(event));
        if (this.#moved) return;
      }
      await this.#load();
      if (this.#moved) return;
    } catch (error) {
      if (signal.aborted) return;
      const failure = failureOf(error);
      records.add("received", "error", failure, { taskId: this.#target ?? "" });
      // The task has ended, or is gone: what can be read of the session decides what is shown, never a stream.
      const over = !failure.retryable;
      await (over ? this.load() : this.#refused(error));
      if (over && this.#moved) return;
      // Not at once: a task that was cut and put back is still running in what is shown.
      wait = over ? 1_000 : failure.retryAfter * 1_000;
    }
    const pause = Math.min(most, first * 2 ** this.#attempts++) * (0.5 + Math.random() / 2);
    await sleep(Math.max(wait, pause), signal);
  }

  /** Take an event of a task's stream. */
  #take({ id: cursor = "", body: { result, ...others } }: SseEvent, taskId: string): void {
    const body = result ?? others;
    const event = classify(body);
    const { kind, messageId } = event;
    if (cursor) this.#cursors.set(taskId, cursor);
    this.records.add("received", kind, body, { taskId, messageId, cursor, unknown: unknownIn(event) });
    this.apply(event);
    if (kind === "task" && event.artifacts.length) void this.#place(taskId);
  }

  /** Read the places of the artifacts of a task, which no task tells. Their contents here may be older than the stream. */
  async #place(taskId: string): Promise<void> {
    const found = await this.persist(() => this.api.artifacts(taskId)).catch(() => []);
    for (const { piece } of found) this.conversation.artifactsOf.place(taskId, piece);
    this.changed();
  }

  /** Take a change of the session: it is read again, unless it was since; artifacts that could not be read are anyway. */
  async #watched({ event: name = "", body }: SseEvent): Promise<void> {
    this.records.add("received", name, body, { taskId: text(body, "taskId") });
    const { version } = body;
    const known = name === "snapshot" ? version === this.told.version : Number(version) <= this.told.version;
    if (known) void this.loadArtifacts(RECENT);
    else await this.#load();
  }
}
