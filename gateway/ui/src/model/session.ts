/** One open session: loads it, follows it through broken connections, and does what the user asks for. */

import type { Api } from "./api";
import { Conversation } from "./conversation";
import { type Event, REWIND_BEFORE, classify, readMessage } from "./events";
import { Failed, failureOf, unanswered } from "./failures";
import { type Json, number, object, parsed, redacted, text } from "./json";
import { type Outgoing, messageOf, newId, sameDraft, shownOf } from "./outgoing";
import { Records, about } from "./records";
import { Rows, type Sending } from "./rows";
import type { Slots } from "./slots";
import type { SseEvent } from "./sse";
import { AT_REST, PAUSED } from "./states";
import { type Pauses, follow, sleep } from "./stream";
import { latestRunning, readTaskInfo } from "./tasks";
import type { Draft, Failure, Sent, SessionView, WireRecord } from "./view";

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
  /** Milliseconds after which a hidden page drops its stream. */
  readonly hiddenAfter?: number;
}

const PAINT = 33;
const PAINT_HIDDEN = 200;
const OLDER_PAGE = 500;

export class OpenSession {
  readonly #api: Api;
  readonly #options: SessionOptions;
  readonly #now: () => number;
  readonly #conversation: Conversation;
  readonly #rows = new Rows();
  readonly #records: Records;
  readonly #listeners = new Set<() => void>();
  readonly #recordListeners = new Set<(record: WireRecord) => void>();
  readonly #closed = new AbortController();
  readonly #outgoing = new Map<string, Outgoing>();
  readonly #cursors = new Map<string, string>();
  readonly #began = new Map<string, number>();
  readonly #whole = new Set<string>();
  readonly #stopping = new Set<string>();
  #sending: ReadonlyMap<string, Sending> = new Map();
  #agent: string;
  #known: boolean;
  #title = "";
  #version = 0;
  #status: SessionView["status"];
  #failure: Failure | null = null;
  #connection: SessionView["connection"] = "idle";
  #notice: SessionView["notice"] = null;
  #loadingOlder = false;
  #rewinding = false;
  #canUndo = false;
  #replyTo = "";
  #online = true;
  #visible = true;
  #dormant = false;
  #hides: ReturnType<typeof setTimeout> | undefined;
  #turn = new AbortController();
  #target: string | null = null;
  #epoch = 0;
  #acts: Promise<unknown> = Promise.resolve();
  #view: SessionView;
  #painted = 0;
  #paint: ReturnType<typeof setTimeout> | undefined;

  constructor(api: Api, options: SessionOptions) {
    this.#api = api;
    this.#options = options;
    this.#now = options.now ?? Date.now;
    this.#records = new Records(this.#now);
    this.#agent = options.agent;
    this.#known = Boolean(options.id);
    this.#status = this.#known ? "loading" : "new";
    this.#conversation = new Conversation(options.id || newId());
    this.#view = this.#build();
    options.channel?.addEventListener("message", this.#heard);
  }

  /** Return the state of the session as of the last change that was told. */
  get view(): SessionView {
    return this.#view;
  }

  /** Call a listener after changes, at most every 33 ms (200 ms in a hidden page). Return how to end that. */
  onChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Return the newest of what came and was sent, oldest first. */
  get records(): readonly WireRecord[] {
    return this.#records.list;
  }

  get recordCount(): number {
    return this.#records.total;
  }

  /** Call a listener for each record. Return how to end that. */
  onRecord(listener: (record: WireRecord) => void): () => void {
    this.#recordListeners.add(listener);
    return () => this.#recordListeners.delete(listener);
  }

  /** Load the session, if there is one already, and follow it until `close`. Return when it was loaded or refused. */
  async open(): Promise<void> {
    if (this.#known) await this.#load().catch((error: unknown) => this.#refused(error));
    if (this.#closed.signal.aborted) return;
    this.#show();
    void this.#read();
  }

  /** End everything; nothing is told to listeners any more. */
  close(): void {
    this.#closed.abort();
    this.#turn.abort();
    clearTimeout(this.#paint);
    clearTimeout(this.#hides);
    this.#listeners.clear();
    this.#recordListeners.clear();
    this.#options.channel?.removeEventListener("message", this.#heard);
  }

  /** Load older messages and put them before the others. */
  async older(): Promise<void> {
    const [oldest] = this.#conversation.messages;
    if (this.#loadingOlder || !this.#conversation.hasOlder || !oldest) return;
    this.#loadingOlder = true;
    this.#changed();
    const epoch = this.#epoch;
    try {
      const page = await this.#api.messages(this.#id, oldest.id, OLDER_PAGE);
      if (epoch === this.#epoch) this.#conversation.prepend(page.messages, page.before !== null);
    } catch (error) {
      this.#tell(failureOf(error));
    } finally {
      this.#loadingOlder = false;
      this.#changed();
    }
  }

  /** Load the artifacts of all tasks that have ended, with the numbers of their versions. */
  async loadArtifacts(): Promise<void> {
    for (const task of this.#conversation.taskList) {
      if (this.#whole.has(task.id) || !AT_REST.has(task.state)) continue;
      this.#whole.add(task.id);
      const found = await this.#api.artifacts(task.id).catch(() => []);
      for (const { piece, versions } of found) this.#conversation.artifactsOf.put(task.id, piece, true, versions);
      if (found.length) this.#changed();
    }
  }

  /**
   * Send a message. Messages are sent one after the other; while the browser is offline they wait, each once. A draft that
   * equals one that has failed repeats it, under the same id.
   */
  send(draft: Draft): Promise<Sent> {
    const failed = [...this.#outgoing.values()].find((out) => out.state === "failed" && sameDraft(out.draft, draft));
    if (failed) return this.retry(failed.id);
    const id = newId();
    const behind = this.#outgoing.size > 0;
    this.#outgoing.set(id, { id, draft, behind, began: 0, message: null, key: id, state: "sending", failure: null });
    const shown = shownOf(messageOf(id, draft, this.#id, this.#goesTo()));
    if (shown.parts.length) this.#conversation.say(shown);
    if (!this.#known) this.#title ||= draft.text.slice(0, 80);
    const sent = this.#deliver(id);
    this.#show();
    return sent;
  }

  /** Send a message again that failed: with the same id and key, so that it has one effect. */
  retry(messageId: string): Promise<Sent> {
    return this.#deliver(messageId);
  }

  /** Remove a message that failed or waits, and return what it said. */
  discard(messageId: string): Draft | null {
    const out = this.#outgoing.get(messageId);
    if (!out || out.state === "sending") return null;
    this.#drop(out);
    const { secret: _, ...draft } = out.draft;
    return draft;
  }

  /** Cancel a task, or the running one. What is shown is what the server says of it. */
  async stop(taskId = this.#running()?.id): Promise<void> {
    if (!taskId || this.#stopping.has(taskId)) return;
    this.#stopping.add(taskId);
    this.#changed();
    try {
      this.#record("sent", "request", { method: "CancelTask", params: { id: taskId } }, { taskId });
      await this.#api.cancel(this.#agentOf(taskId), taskId).then((task) => this.#applyWhole(task));
    } catch (error) {
      this.#record("received", "error", failureOf(error), { taskId });
      if (failureOf(error).metadata["rpc"] === "-32002") await this.#fetch(taskId);
      else {
        this.#stopping.delete(taskId);
        this.#tell(failureOf(error));
      }
    }
    this.#steer();
  }

  /**
   * Cut a turn and everything after it: shown at once, and put back if the server does not do it. Return the text of the
   * turn, to be edited and sent again.
   */
  async rewind(invocationId: string): Promise<{ text: string } | Failure> {
    if (this.#rewinding) return Failed.of("REWIND_IN_FLIGHT", "Another rewind of this conversation is under way.").failure;
    this.#rewinding = true;
    const done = this.#after(() => this.#rewind(invocationId));
    this.#changed();
    try {
      return await done;
    } catch (error) {
      return failureOf(error);
    } finally {
      this.#rewinding = false;
      this.#steer();
    }
  }

  /** Undo the last rewind. */
  async undo(): Promise<Failure | null> {
    if (this.#rewinding) return Failed.of("REWIND_IN_FLIGHT", "Another rewind of this conversation is under way.").failure;
    this.#rewinding = true;
    this.#changed();
    try {
      await this.#after(async () => {
        const key = newId();
        const done = await this.#persist(() => this.#api.undo(this.#id, key));
        const tasks = await this.#api.taskInfos(this.#id);
        this.#epoch++;
        this.#conversation.undone(done.messages, tasks);
        this.#unsure();
        this.#canUndo = false;
        this.#broadcast("undo");
      });
      return null;
    } catch (error) {
      this.#canUndo = unanswered(error);
      return failureOf(error);
    } finally {
      this.#rewinding = false;
      this.#steer();
    }
  }

  /** Let the next message refer to a task of the user's choice; empty: to the one that the rules say. */
  replyTo(taskId: string): void {
    this.#replyTo = taskId;
    this.#changed();
  }

  dismiss(): void {
    this.#notice = null;
    this.#changed();
  }

  setVisible(visible: boolean): void {
    this.#visible = visible;
    clearTimeout(this.#hides);
    if (!visible) this.#hides = setTimeout(() => this.#sleeps(true), this.#options.hiddenAfter ?? 30_000);
    else this.#sleeps(false);
    this.#changed();
  }

  setOnline(online: boolean): void {
    if (online === this.#online) return;
    this.#online = online;
    this.#connection = online ? "lost" : "offline";
    this.#turn.abort();
    this.#changed();
  }

  /** Read the session again, for instance since it was changed elsewhere. */
  async refresh(): Promise<void> {
    if (!this.#known) return;
    if (this.#status !== "ready") this.#status = "loading";
    await this.#load().catch((error: unknown) => this.#refused(error));
    this.#steer();
  }

  get #id(): string {
    return this.#conversation.contextId;
  }

  // --- Reading -------------------------------------------------------------------------------------------------------

  async #read(): Promise<void> {
    while (!this.#closed.signal.aborted) {
      const turn = (this.#turn = new AbortController());
      const { signal } = turn;
      if (!this.#known || !this.#online || this.#dormant || this.#status === "missing" || this.#status === "refused") {
        if (this.#online) this.#connect("idle");
        await sleep(2 ** 31 - 1, signal);
        continue;
      }
      try {
        const slot = await this.#options.slots.take(signal, () => this.#connect("waiting"));
        slot.wanted.addEventListener("abort", () => turn.abort());
        try {
          if (this.#status === "loading") await this.#load();
          await this.#follow(signal);
        } finally {
          slot.release();
        }
      } catch (error) {
        if (signal.aborted) continue;
        this.#refused(error);
        await sleep(1_000, signal);
      }
    }
  }

  async #follow(signal: AbortSignal): Promise<void> {
    const task = this.#running();
    this.#target = task?.id ?? "";
    const opened = (): void => this.#connect("live");
    const lost = (failure: Failure): void => {
      this.#record("received", "error", failure, { taskId: task?.id ?? "" });
      this.#connect("lost");
    };
    if (!task) {
      const stream = {
        open: (_: string, open: AbortSignal) => this.#api.watch(this.#id, { signal: open, opened }),
        take: (event: SseEvent) => this.#watched(event),
        ended: () => this.#load().then(() => this.#running() !== null),
        lost,
      };
      await follow(stream, "", signal, this.#options.pauses);
      return;
    }
    const { id } = task;
    const agent = this.#agentOf(id);
    const stream = {
      open: (cursor: string, open: AbortSignal) => this.#api.subscribe(agent, id, cursor, { signal: open, opened }),
      take: (event: SseEvent) => this.#take(event, id),
      ended: () => this.#fetch(id),
      lost,
    };
    try {
      await follow(stream, this.#cursors.get(id) ?? "", signal, this.#options.pauses);
    } catch (error) {
      const rpc = failureOf(error).metadata["rpc"];
      if (rpc === "-32004") await this.#fetch(id);
      else if (rpc === "-32001") await this.#load();
      else throw error;
    }
  }

  /** Take an event of a task's stream; return whether the task needs no stream any more. */
  #take(event: SseEvent, taskId: string): boolean {
    const body = object(parsed(event.data))?.["result"];
    const what = classify(body);
    if (event.id) this.#cursors.set(taskId, event.id);
    this.#record("received", what.kind, body, { ...about(what), taskId, cursor: event.id });
    this.#timed(what);
    this.#apply(what);
    const task = this.#conversation.tasks.find(taskId);
    return !task || AT_REST.has(task.state) || this.#conversation.dropped(taskId);
  }

  /** Take a change of the session; return whether a task runs, whose stream tells more. */
  async #watched(event: SseEvent): Promise<boolean> {
    const body = object(parsed(event.data)) ?? {};
    this.#record("received", event.name, body, { taskId: text(body, "taskId") });
    const { tasks } = this.#conversation;
    const version = number(body, "version");
    switch (event.name) {
      case "snapshot":
        if (version !== this.#version) await this.#load();
        this.#version = version;
        break;
      case "entry-added":
        await this.#added(body);
        if (version) this.#version = version;
        break;
      case "rewound":
      case "task-removed":
        await this.#load();
        break;
      case "task-updated":
        await this.#fetch(text(body, "taskId")).catch(() => false);
        break;
      default: {
        const info = readTaskInfo(body);
        if (!info) break;
        const ended = AT_REST.has(info.state) && tasks.find(info.id)?.state !== info.state;
        if (info.superseded) tasks.remove([info.id]);
        else if (ended) await this.#fetch(info.id).catch(() => false);
        else tasks.put(info);
      }
    }
    this.#changed();
    return this.#running() !== null;
  }

  async #added(entry: Json): Promise<void> {
    const message = object(entry["message"]);
    if (["void", "rewind", "undo", "pushed"].includes(text(entry, "kind")) || entry["takenBack"] === true)
      await this.#load();
    else if (message) {
      const said = readMessage({ taskId: text(entry, "taskId"), ...message });
      if (!said.progress && !said.partial && said.parts.length) this.#conversation.apply({ kind: "message", message: said });
    }
  }

  /** Read the session, its newest messages and its tasks. Raise Failed. */
  async #load(): Promise<void> {
    const epoch = this.#epoch;
    const known = new Set([...this.#conversation.messages, ...this.#conversation.tasks.list].map(({ id }) => id));
    for (const id of this.#outgoing.keys()) known.delete(id);
    const session = await this.#api.session(this.#id);
    const [page, tasks] = await Promise.all([this.#api.messages(this.#id), this.#api.taskInfos(this.#id)]);
    if (epoch !== this.#epoch || this.#closed.signal.aborted) return;
    this.#conversation.reload(page.messages, page.before !== null, tasks, (id) => !known.has(id));
    this.#title = session.title;
    this.#agent = session.agent || this.#agent;
    this.#version = session.version;
    this.#canUndo = session.canUndo;
    this.#status = "ready";
    this.#failure = null;
    this.#changed();
    const latest = this.#conversation.taskList.at(-1);
    if (latest && AT_REST.has(latest.state) && !this.#whole.has(latest.id)) await this.#fetch(latest.id).catch(() => false);
    this.#changed();
  }

  /** Read a task as the server has it; return whether it is at rest. */
  async #fetch(taskId: string): Promise<boolean> {
    const task = await this.#api.task(taskId);
    if (!AT_REST.has(task.state)) return false;
    this.#whole.add(taskId);
    this.#applyWhole(task);
    return true;
  }

  #applyWhole(task: Event & { kind: "task" }): void {
    this.#record("received", "task", task, { taskId: task.id });
    if (task.cursor) this.#cursors.set(task.id, task.cursor);
    this.#apply(task);
  }

  #apply(event: Event, answersRewind = false): void {
    this.#conversation.apply(event, answersRewind);
    const id = event.kind === "task" ? event.id : event.kind === "status-update" ? event.taskId : "";
    const task = id && this.#conversation.tasks.find(id);
    if (task && !task.agent) this.#conversation.tasks.amend(id, { agent: this.#agent });
    if (task && AT_REST.has(task.state)) this.#stopping.delete(id);
    this.#changed();
  }

  /** Note the time until the first output of a task that this client began. */
  #timed(event: Event): void {
    const said = event.kind === "status-update" && event.message?.role === "agent" && !event.message.progress;
    if (!said && event.kind !== "artifact-update") return;
    const began = this.#began.get(event.taskId);
    if (began === undefined) return;
    this.#began.delete(event.taskId);
    this.#conversation.tasks.amend(event.taskId, { firstOutputMs: this.#now() - began });
  }

  #refused(error: unknown): void {
    const failure = failureOf(error);
    if (failure.retryable) return this.#connect(this.#online ? "lost" : "offline");
    this.#status = failure.status === 404 ? "missing" : "refused";
    this.#failure = failure;
    this.#connect("idle");
  }

  /** Let the stream be of what matters now, and show what an act has changed. */
  #steer(): void {
    const wanted = this.#running()?.id ?? "";
    if (this.#target === null || wanted !== this.#target) this.#turn.abort();
    if (!this.#closed.signal.aborted) this.#show();
  }

  /** Forget the version, unless a stream tells the new one. */
  #unsure(): void {
    if (this.#target !== "" || this.#connection !== "live") this.#version = 0;
  }

  #sleeps(dormant: boolean): void {
    if (dormant === this.#dormant) return;
    this.#dormant = dormant;
    this.#turn.abort();
  }

  #running(): SessionView["running"] {
    return latestRunning(this.#conversation.taskList);
  }

  #agentOf(taskId: string): string {
    return this.#conversation.tasks.find(taskId)?.agent || this.#agent;
  }

  readonly #heard = (event: MessageEvent): void => {
    if (text(object(event.data) ?? {}, "session") === this.#id) void this.refresh();
  };

  // --- Acts ----------------------------------------------------------------------------------------------------------

  /** Do one act after the other. */
  #after<Value>(act: () => Promise<Value>): Promise<Value> {
    const done = this.#acts.then(act, act);
    this.#acts = done.catch(() => undefined);
    return done;
  }

  #deliver(id: string): Promise<Sent> {
    const out = this.#outgoing.get(id);
    if (!out) return Promise.resolve({ ok: false, failure: Failed.of("GONE", "This message was removed.").failure });
    this.#state(out, this.#online ? "sending" : "queued");
    return this.#after(async () => {
      for (;;) {
        while (!this.#online && !this.#closed.signal.aborted) await this.#onlineAgain();
        if (!this.#outgoing.has(id)) return { ok: false, failure: Failed.of("GONE", "This message was removed.").failure };
        this.#state(out, "sending");
        try {
          await this.#post(out);
          return { ok: true, sessionId: this.#id };
        } catch (error) {
          const failure = failureOf(error);
          this.#record("received", "error", failure, { messageId: id });
          if (failure.code === "OFFLINE" && !this.#online) this.#state(out, "queued");
          else if (!(await this.#resolved(out, failure))) {
            this.#show();
            return { ok: false, failure };
          }
        }
      }
    });
  }

  async #post(out: Outgoing): Promise<void> {
    const guarded = out.message === null && !out.behind && this.#running() === null;
    out.began = this.#now();
    out.message ??= messageOf(out.id, out.draft, this.#id, this.#goesTo());
    const { message, key } = out;
    const version = guarded ? this.#version : 0;
    this.#record("sent", "request", { method: "SendMessage", params: { message: redacted(message) } }, { messageId: out.id });
    const answered = (result: unknown): void => this.#record("received", "response", result, about(classify(result)));
    const event = await this.#api.send(this.#agent, message, { key, version, answered });
    this.#outgoing.delete(out.id);
    this.#conversation.accept(out.id);
    this.#sent();
    this.#known = true;
    this.#status = "ready";
    this.#unsure();
    this.#canUndo = false;
    this.#replyTo = "";
    this.#notice = null;
    this.#answered(event, out);
    this.#broadcast("send");
    this.#steer();
  }

  /** Apply what a send made. A task whose stream is being read tells the rest itself. */
  #answered(event: Event, out: Outgoing): void {
    if (event.kind !== "task") return this.#apply(event);
    const known = this.#conversation.tasks.find(event.id);
    const said = event.history.find((message) => message.id === out.id);
    if (known && !AT_REST.has(known.state) && this.#cursors.has(event.id) && said)
      return this.#apply({ kind: "message", message: said });
    this.#began.set(event.id, out.began);
    this.#whole.delete(event.id);
    if (event.state === "submitted" || AT_REST.has(event.state)) this.#cursors.set(event.id, event.cursor);
    else this.#cursors.delete(event.id);
    this.#apply(event);
  }

  /** Handle the refusal of a message; return whether it is to be sent once more. */
  async #resolved(out: Outgoing, failure: Failure): Promise<boolean> {
    const named = text(out.message ?? {}, "taskId");
    const ended = failure.metadata["rpc"] === "-32004" && named !== "";
    const stale = failure.code === "VERSION_MISMATCH";
    if (ended || stale) {
      const before = this.#signature();
      await this.#load().catch(() => undefined);
      const again = stale ? before === this.#signature() : this.#goesTo().taskId === "" && this.#conversation.tasks.find(named);
      if (again) {
        out.message = null;
        out.key = newId();
        return true;
      }
      if (stale) {
        this.#drop(out);
        this.#tell(failure);
        return false;
      }
    }
    if (!unanswered(failure)) out.message = null;
    this.#state(out, "failed", failure);
    return false;
  }

  /** Return what of the session would matter to somebody who writes. */
  #signature(): string {
    const messages = this.#conversation.messages.filter((message) => !this.#outgoing.has(message.id));
    return JSON.stringify([this.#conversation.taskList.map((task) => task.id), messages.length, messages.at(-1)?.id]);
  }

  async #rewind(invocationId: string): Promise<{ text: string } | Failure> {
    const said = this.#conversation.rewind(invocationId);
    this.#show();
    const messageId = newId();
    const metadata = { [REWIND_BEFORE]: invocationId };
    const message = { messageId, role: "ROLE_USER", contextId: this.#id, parts: [{ text: "" }], metadata };
    this.#record("sent", "request", { method: "SendMessage", params: { message } }, { messageId });
    try {
      const answered = (result: unknown): void => this.#record("received", "response", result, { messageId });
      const event = await this.#persist(() => this.#api.send(this.#agent, message, { key: messageId, answered }));
      this.#epoch++;
      this.#apply(event, true);
    } catch (error) {
      const failure = failureOf(error);
      this.#record("received", "error", failure, { messageId });
      if (failure.metadata["rewound"] === "true") this.#conversation.rewound();
      else this.#conversation.restore();
      this.#version = 0;
      if (unanswered(error)) this.#turn.abort();
      throw error;
    }
    this.#conversation.restore();
    this.#unsure();
    if (this.#conversation.notice) {
      void this.refresh();
      return Failed.of("NOT_REWOUND", this.#conversation.notice).failure;
    }
    for (const out of this.#outgoing.values()) if (!this.#conversation.has(out.id)) this.#outgoing.delete(out.id);
    this.#canUndo = true;
    this.#broadcast("rewind");
    return { text: said };
  }

  /** Do what has one effect however often it is done, until it is answered or was tried long enough. */
  async #persist<Value>(act: () => Promise<Value>): Promise<Value> {
    for (let attempt = 0; ; attempt++) {
      try {
        return await act();
      } catch (error) {
        if (!unanswered(error) || attempt === 3) throw error;
        await sleep((this.#options.pauses?.first ?? 250) * 2 ** attempt, this.#closed.signal);
      }
    }
  }

  #goesTo(): { taskId: string; referenceTaskIds: readonly string[] } {
    return this.#replyTo ? { taskId: "", referenceTaskIds: [this.#replyTo] } : this.#conversation.nextMessage();
  }

  #onlineAgain(): Promise<void> {
    return new Promise((resolve) => {
      const stop = this.onChange(() => {
        if (!this.#online) return;
        stop();
        resolve();
      });
      this.#closed.signal.addEventListener("abort", () => resolve(), { once: true });
    });
  }

  #state(out: Outgoing, state: Outgoing["state"], failure: Failure | null = null): void {
    out.state = state;
    out.failure = failure;
    this.#sent();
  }

  #drop(out: Outgoing): void {
    this.#outgoing.delete(out.id);
    this.#conversation.unsay(out.id);
    this.#sent();
  }

  #sent(): void {
    this.#sending = new Map([...this.#outgoing].map(([id, { state, failure }]) => [id, { state, failure }]));
    this.#changed();
  }

  #tell({ code, message }: Failure): void {
    this.#notice = { code, text: message };
    this.#changed();
  }

  #broadcast(what: string): void {
    this.#options.channel?.postMessage({ session: this.#id, what });
  }

  #record(direction: WireRecord["direction"], kind: string, body: unknown, at: Partial<WireRecord> = {}): void {
    const record = this.#records.add(direction, kind, body, at);
    for (const listener of this.#recordListeners) listener(record);
  }

  // --- The view ------------------------------------------------------------------------------------------------------

  #connect(connection: SessionView["connection"]): void {
    this.#connection = connection;
    this.#changed();
  }

  #changed(): void {
    if (this.#paint !== undefined || this.#closed.signal.aborted) return;
    const every = this.#visible ? PAINT : PAINT_HIDDEN;
    this.#paint = setTimeout(() => this.#show(), Math.max(0, every - (performance.now() - this.#painted)));
  }

  /** Make the view anew and tell it, at once. */
  #show(): void {
    clearTimeout(this.#paint);
    this.#paint = undefined;
    this.#painted = performance.now();
    this.#view = this.#build();
    for (const listener of this.#listeners) listener();
  }

  #build(): SessionView {
    const conversation = this.#conversation;
    const tasks = conversation.taskList;
    const running = this.#running();
    const latest = tasks.at(-1) ?? null;
    const paused = latest && PAUSED.has(latest.state) ? latest : null;
    const { messages, live, artifacts, hasOlder } = conversation;
    const rewinding = this.#rewinding;
    return {
      id: this.#known ? this.#id : "",
      agent: this.#agent,
      title: this.#title,
      version: this.#version,
      status: this.#status,
      failure: this.#failure,
      connection: this.#connection,
      rows: this.#rows.of({ messages, live, artifacts, tasks, paused, sending: this.#sending, hasOlder, rewinding }),
      hasOlder,
      loadingOlder: this.#loadingOlder,
      tasks,
      artifacts,
      progress: (running && conversation.progress.get(running.id)) ?? "",
      running,
      stopping: running !== null && this.#stopping.has(running.id),
      paused,
      rewinding,
      canUndo: this.#canUndo,
      replyTo: this.#replyTo,
      notice: this.#notice,
      unknown: conversation.unknown,
    };
  }
}
