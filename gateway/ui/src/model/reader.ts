/** Loads a session and follows it: the stream of its running task, or else the changes of the session. */

import { SessionState } from "./core";
import { type Event, classify, lasts, read } from "./events";
import { failureOf } from "./failures";
import { type Json, number, object, parsed, text } from "./json";
import type { SseEvent } from "./http";
import { AT_REST } from "./states";
import { follow, sleep } from "./stream";
import { readTaskInfo } from "./tasks";
import type { Failure } from "./view";

const NEVER = 2 ** 31 - 1;
/** Kinds of entries after which the conversation is another one. */
const STEERS = ["void", "rewind", "undo", "pushed"];

export class FollowedSession extends SessionState {
  /** Rises when the history becomes another one, so that an older answer is not taken. */
  protected epoch = 0;
  readonly #cursors = new Map<string, string>();
  /** When this client sent what began a task, until there is an output. */
  readonly #began = new Map<string, number>();
  /** Tasks whose artifacts were listed. */
  readonly #listed = new Set<string>();
  #turn = new AbortController();
  /** The task whose stream is read; empty: the session; null: nothing yet. */
  #target: string | null = null;
  #dormant = false;

  /** Load the artifacts of tasks that have ended, with the numbers of their versions; `newest`: of at most so many. */
  async loadArtifacts(newest = Infinity): Promise<void> {
    const { api, conversation, closed } = this;
    const tasks = conversation.taskList.filter((task) => AT_REST.has(task.state)).slice(-newest);
    for (const { id } of tasks.reverse()) {
      if (closed.signal.aborted || this.#listed.has(id)) continue;
      this.#listed.add(id);
      const found = await api.artifacts(id).catch(() => []);
      for (const { piece, versions } of found) conversation.artifactsOf.put(id, piece, true, versions);
    }
    this.changed();
  }

  protected async run(): Promise<void> {
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

  /** End the stream that is read; what is to be read now is decided anew. */
  protected interrupt(): void {
    this.#turn.abort();
  }

  /** Let the stream be of what matters now, and show what an act has changed. */
  protected steer(): void {
    if (this.#target !== (this.running?.id ?? "")) this.interrupt();
    this.show();
  }

  /** Read nothing while nobody looks. */
  protected sleeps(dormant: boolean): void {
    if (dormant !== this.#dormant) this.interrupt();
    this.#dormant = dormant;
  }

  /** Forget the version, unless a stream tells the new one. */
  protected unsure(): void {
    if (this.#target !== "" || this.told.connection !== "live") this.set({ version: 0 });
  }

  /** Read the session, its newest messages and its tasks; do nothing if that fails. */
  protected load(): Promise<void> {
    return this.#load().catch((error: unknown) => this.#refused(error));
  }

  /** Read a task as the server has it; return whether it is at rest. */
  protected async fetch(taskId: string): Promise<boolean> {
    const task = await this.api.task(taskId);
    if (!AT_REST.has(task.state)) return false;
    this.whole(task);
    return true;
  }

  /** Take a task that was read as a whole. */
  protected whole(task: Event): void {
    this.records.add("received", "task", task, { taskId: task.taskId });
    if (task.cursor) this.#cursors.set(task.taskId, task.cursor);
    this.apply(task);
  }

  /** Take what a message made. A task whose stream is being read tells the rest itself. */
  protected answered(event: Event, messageId: string, began: number): void {
    if (event.kind !== "task") return this.apply(event);
    const { taskId: id, state, cursor, history } = event;
    const known = this.conversation.tasks.find(id);
    const message = history.find((one) => one.id === messageId);
    if (known && !AT_REST.has(known.state) && this.#cursors.has(id) && message) return this.apply({ ...event, kind: "message", message });
    this.#began.set(id, began);
    if (state === "submitted" || AT_REST.has(state)) this.#cursors.set(id, cursor);
    else this.#cursors.delete(id);
    this.apply(event);
  }

  protected apply(event: Event, answersRewind = false): void {
    const { conversation, stopping, told } = this;
    conversation.apply(event, answersRewind);
    const task = conversation.tasks.find(event.taskId);
    if (task && !task.agent) conversation.tasks.amend(task.id, { agent: told.agent });
    if (task && AT_REST.has(task.state)) stopping.delete(task.id);
    this.changed();
  }

  async #load(): Promise<void> {
    const { api, id, conversation, outgoing, closed, told, epoch } = this;
    const known = new Set([...conversation.messages, ...conversation.tasks.list].map((one) => one.id));
    const arrived = (one: string): boolean => !known.has(one) || outgoing.has(one);
    const session = await api.session(id);
    const [page, tasks] = await Promise.all([api.messages(id), api.taskInfos(id)]);
    if (epoch !== this.epoch || closed.signal.aborted) return;
    conversation.reload(page.messages, page.before !== null, tasks, arrived);
    this.set({ ...session, agent: session.agent || told.agent, status: "ready", failure: null });
    const latest = conversation.taskList.at(-1);
    if (latest && AT_REST.has(latest.state)) await this.fetch(latest.id).catch(() => false);
  }

  #refused(error: unknown): void {
    const failure = failureOf(error);
    const connection = this.online ? "lost" : "offline";
    if (failure.retryable) this.set({ connection });
    else this.set({ status: failure.status === 404 ? "missing" : "refused", failure, connection: "idle" });
  }

  async #read(signal: AbortSignal): Promise<void> {
    try {
      if (this.told.status === "loading") await this.#load();
      await this.#follow(signal);
    } catch (error) {
      if (signal.aborted) return;
      this.#refused(error);
      await sleep(1_000, signal);
    }
  }

  async #follow(signal: AbortSignal): Promise<void> {
    const { api, id, running } = this;
    const taskId = (this.#target = running?.id ?? "");
    const request = { signal, opened: () => this.set({ connection: "live" }) };
    const lost = (failure: Failure): void => {
      this.records.add("received", "error", failure, { taskId });
      this.set({ connection: "lost" });
    };
    const stream = running
      ? {
          open: (cursor: string) => api.subscribe(this.agentOf(taskId), taskId, cursor, request),
          take: (event: SseEvent) => this.#take(event, taskId),
          ended: () => this.fetch(taskId),
        }
      : {
          open: () => api.watch(id, request),
          take: (event: SseEvent) => this.#watched(event),
          ended: () => this.#load().then(() => this.running !== null),
        };
    try {
      await follow({ ...stream, lost }, this.#cursors.get(taskId) ?? "", signal, this.options.pauses);
    } catch (error) {
      const rpc = failureOf(error).metadata["rpc"];
      if (rpc === "-32004") await this.fetch(taskId);
      else if (rpc === "-32001") await this.#load();
      else throw error;
    }
    if (!taskId || signal.aborted || this.running?.id !== taskId) return;
    // The stream has ended, and the task runs on in what is shown, as one that was cut and put back: the server knows.
    await this.#load();
    await sleep(1_000, signal);
  }

  /** Take an event of a task's stream; return whether the task needs no stream any more. */
  #take({ id: cursor = "", data }: SseEvent, taskId: string): boolean {
    const { conversation, records } = this;
    const body = object(parsed(data))?.["result"];
    const event = classify(body);
    if (cursor) this.#cursors.set(taskId, cursor);
    records.add("received", event.kind, body, { taskId, messageId: event.messageId, cursor });
    this.#timed(event);
    this.apply(event);
    const task = conversation.tasks.find(taskId);
    return !task || AT_REST.has(task.state) || conversation.dropped(taskId);
  }

  /** Take a change of the session; return whether a task runs, whose stream tells more. */
  async #watched({ event: name = "", data }: SseEvent): Promise<boolean> {
    const body = object(parsed(data)) ?? {};
    const version = number(body, "version");
    const taskId = text(body, "taskId");
    this.records.add("received", name, body, { taskId });
    if (name === "entry-added") await this.#added(body);
    else if (name === "snapshot" ? version !== this.told.version : ["rewound", "task-removed"].includes(name)) await this.#load();
    else if (name.startsWith("task-")) await this.#changed(body);
    if (version) this.set({ version });
    this.changed();
    return this.running !== null;
  }

  async #changed(body: Json): Promise<void> {
    const { tasks } = this.conversation;
    const info = readTaskInfo(body);
    if (!info.id) return;
    if (info.superseded) tasks.remove([info.id]);
    else if (this.conversation.dropped(info.id)) return;
    else if (!AT_REST.has(info.state) || !(await this.fetch(info.id).catch(() => false))) tasks.put(info);
  }

  async #added(entry: Json): Promise<void> {
    if (STEERS.includes(text(entry, "kind")) || entry["takenBack"] === true) return this.#load();
    const body = object(entry["message"]);
    const event = body && read("message", { taskId: text(entry, "taskId"), ...body });
    if (event?.message && lasts(event.message)) this.apply(event);
  }

  /** Note the time until the first output of a task that this client began. */
  #timed(event: Event): void {
    const { kind, taskId, message } = event;
    const said = kind === "status-update" && message?.role === "agent" && !message.progress;
    const began = this.#began.get(taskId);
    if (began === undefined || (!said && kind !== "artifact-update")) return;
    this.#began.delete(taskId);
    this.conversation.tasks.amend(taskId, { firstOutputMs: Date.now() - began });
  }
}
