/** Loads a session and follows it: the stream of its running task, or else the changes of the session. */

import type { Core } from "./core";
import { type Event, type FullTask, classify, readMessage } from "./events";
import { failureOf } from "./failures";
import { type Json, number, object, parsed, text } from "./json";
import { about } from "./records";
import type { SseEvent } from "./sse";
import { AT_REST } from "./states";
import { follow, sleep } from "./stream";
import { readTaskInfo } from "./tasks";
import type { Failure } from "./view";

const NEVER = 2 ** 31 - 1;
/** Kinds of entries after which the conversation is another one. */
const STEERS = ["void", "rewind", "undo", "pushed"];

export class Reader {
  /** Rises when the history becomes another one, so that an older answer is not taken. */
  epoch = 0;
  readonly #core: Core;
  readonly #cursors = new Map<string, string>();
  /** When this client sent what began a task, until there is an output. */
  readonly #began = new Map<string, number>();
  /** Tasks of which everything was read. */
  readonly #whole = new Set<string>();
  /** Tasks whose artifacts were listed. */
  readonly #listed = new Set<string>();
  #turn = new AbortController();
  /** The task whose stream is read; empty: the session; null: nothing yet. */
  #target: string | null = null;
  #dormant = false;

  constructor(core: Core) {
    this.#core = core;
  }

  async run(): Promise<void> {
    const { closed, options } = this.#core;
    while (!closed.signal.aborted) {
      const turn = (this.#turn = new AbortController());
      if (!this.#mayRead()) {
        if (this.#core.online) this.#core.set({ connection: "idle" });
        await sleep(NEVER, turn.signal);
        continue;
      }
      try {
        const slot = await options.slots.take(turn.signal, () => this.#core.set({ connection: "waiting" }));
        slot.wanted.addEventListener("abort", () => turn.abort());
        try {
          if (this.#core.told.status === "loading") await this.load();
          await this.#follow(turn.signal);
        } finally {
          slot.release();
        }
      } catch (error) {
        if (turn.signal.aborted) continue;
        this.refused(error);
        await sleep(1_000, turn.signal);
      }
    }
  }

  /** End the stream that is read; what is to be read now is decided anew. */
  interrupt(): void {
    this.#turn.abort();
  }

  /** Let the stream be of what matters now, and show what an act has changed. */
  steer(): void {
    if (this.#target !== (this.#core.running?.id ?? "")) this.interrupt();
    this.#core.show();
  }

  /** Read nothing while nobody looks. */
  sleeps(dormant: boolean): void {
    if (dormant === this.#dormant) return;
    this.#dormant = dormant;
    this.interrupt();
  }

  /** Forget the version, unless a stream tells the new one. */
  unsure(): void {
    if (this.#target !== "" || this.#core.told.connection !== "live") this.#core.set({ version: 0 });
  }

  /** Read the session, its newest messages and its tasks. Raise Failed. */
  async load(): Promise<void> {
    const { api, id, conversation, outgoing, closed, told } = this.#core;
    const { epoch } = this;
    const known = new Set([...conversation.messages, ...conversation.tasks.list].map((one) => one.id));
    for (const message of outgoing.keys()) known.delete(message);
    const session = await api.session(id);
    const [page, tasks] = await Promise.all([api.messages(id), api.taskInfos(id)]);
    if (epoch !== this.epoch || closed.signal.aborted) return;
    conversation.reload(page.messages, page.before !== null, tasks, (one) => !known.has(one));
    this.#core.set({ ...session, agent: session.agent || told.agent, status: "ready", failure: null });
    const latest = conversation.taskList.at(-1);
    if (latest && AT_REST.has(latest.state) && !this.#whole.has(latest.id)) await this.fetch(latest.id).catch(() => false);
  }

  /** Read a task as the server has it; return whether it is at rest. */
  async fetch(taskId: string): Promise<boolean> {
    const task = await this.#core.api.task(taskId);
    if (!AT_REST.has(task.state)) return false;
    this.whole(task);
    return true;
  }

  /** Load the artifacts of tasks that have ended, with the numbers of their versions; `newest`: of at most so many. */
  async loadArtifacts(newest = Infinity): Promise<void> {
    const { api, conversation, closed } = this.#core;
    const tasks = conversation.taskList.filter((task) => AT_REST.has(task.state)).slice(-newest);
    for (const { id } of tasks.reverse()) {
      if (closed.signal.aborted || this.#listed.has(id)) continue;
      this.#listed.add(id);
      const found = await api.artifacts(id).catch(() => []);
      for (const { piece, versions } of found) conversation.artifactsOf.put(id, piece, true, versions);
    }
    this.#core.changed();
  }

  /** Take a task that was read as a whole. */
  whole(task: FullTask): void {
    this.#core.records.add("received", "task", task, { taskId: task.id });
    if (AT_REST.has(task.state)) this.#whole.add(task.id);
    if (task.cursor) this.#cursors.set(task.id, task.cursor);
    this.apply(task);
  }

  /** Take what a message made. A task whose stream is being read tells the rest itself. */
  answered(event: Event, messageId: string, began: number): void {
    if (event.kind !== "task") return this.apply(event);
    const { id, state, cursor, history } = event;
    const known = this.#core.conversation.tasks.find(id);
    const message = history.find((one) => one.id === messageId);
    if (known && !AT_REST.has(known.state) && this.#cursors.has(id) && message) return this.apply({ kind: "message", message });
    this.#began.set(id, began);
    this.#whole.delete(id);
    if (state === "submitted" || AT_REST.has(state)) this.#cursors.set(id, cursor);
    else this.#cursors.delete(id);
    this.apply(event);
  }

  apply(event: Event, answersRewind = false): void {
    const { conversation, stopping, told } = this.#core;
    conversation.apply(event, answersRewind);
    const { taskId } = about(event);
    const task = conversation.tasks.find(taskId);
    if (task && !task.agent) conversation.tasks.amend(taskId, { agent: told.agent });
    if (task && AT_REST.has(task.state)) stopping.delete(taskId);
    this.#core.changed();
  }

  refused(error: unknown): void {
    const failure = failureOf(error);
    if (failure.retryable) return this.#core.set({ connection: this.#core.online ? "lost" : "offline" });
    const status = failure.status === 404 ? "missing" : "refused";
    this.#core.set({ status, failure, connection: "idle" });
  }

  #mayRead(): boolean {
    const { known, online, told } = this.#core;
    return known && online && !this.#dormant && told.status !== "missing" && told.status !== "refused";
  }

  async #follow(signal: AbortSignal): Promise<void> {
    const { api, id: session, running, options, records } = this.#core;
    const taskId = (this.#target = running?.id ?? "");
    const opened = (): void => this.#core.set({ connection: "live" });
    const lost = (failure: Failure): void => {
      records.add("received", "error", failure, { taskId });
      this.#core.set({ connection: "lost" });
    };
    if (!running) {
      const open = (_: string, signal: AbortSignal) => api.watch(session, { signal, opened });
      const ended = () => this.load().then(() => this.#core.running !== null);
      await follow({ open, take: (event) => this.#watched(event), ended, lost }, "", signal, options.pauses);
      return;
    }
    const agent = this.#core.agentOf(taskId);
    const open = (cursor: string, signal: AbortSignal) => api.subscribe(agent, taskId, cursor, { signal, opened });
    const stream = { open, take: (event: SseEvent) => this.#take(event, taskId), ended: () => this.fetch(taskId), lost };
    try {
      await follow(stream, this.#cursors.get(taskId) ?? "", signal, options.pauses);
    } catch (error) {
      const rpc = failureOf(error).metadata["rpc"];
      if (rpc === "-32004") await this.fetch(taskId);
      else if (rpc === "-32001") await this.load();
      else throw error;
    }
  }

  /** Take an event of a task's stream; return whether the task needs no stream any more. */
  #take(sse: SseEvent, taskId: string): boolean {
    const { conversation, records } = this.#core;
    const body = object(parsed(sse.data))?.["result"];
    const event = classify(body);
    if (sse.id) this.#cursors.set(taskId, sse.id);
    records.add("received", event.kind, body, { ...about(event), taskId, cursor: sse.id });
    this.#timed(event);
    this.apply(event);
    const task = conversation.tasks.find(taskId);
    return !task || AT_REST.has(task.state) || conversation.dropped(taskId);
  }

  /** Take a change of the session; return whether a task runs, whose stream tells more. */
  async #watched(event: SseEvent): Promise<boolean> {
    const { records, told } = this.#core;
    const body = object(parsed(event.data)) ?? {};
    const version = number(body, "version");
    const taskId = text(body, "taskId");
    records.add("received", event.name, body, { taskId });
    if (event.name === "entry-added") await this.#added(body);
    else if (event.name === "snapshot" ? version !== told.version : ["rewound", "task-removed"].includes(event.name)) await this.load();
    else if (event.name === "task-updated") await this.fetch(taskId).catch(() => false);
    else if (event.name.startsWith("task-")) await this.#changed(body);
    if (version) this.#core.set({ version });
    this.#core.changed();
    return this.#core.running !== null;
  }

  async #changed(body: Json): Promise<void> {
    const { tasks } = this.#core.conversation;
    const info = readTaskInfo(body);
    if (!info) return;
    const ends = AT_REST.has(info.state) && tasks.find(info.id)?.state !== info.state;
    if (info.superseded) tasks.remove([info.id]);
    else if (!ends || !(await this.fetch(info.id).catch(() => false))) tasks.put(info);
  }

  async #added(entry: Json): Promise<void> {
    if (STEERS.includes(text(entry, "kind")) || entry["takenBack"] === true) return this.load();
    const body = object(entry["message"]);
    const message = body && readMessage({ taskId: text(entry, "taskId"), ...body });
    if (message && !message.progress && !message.partial && message.parts.length) this.apply({ kind: "message", message });
  }

  /** Note the time until the first output of a task that this client began. */
  #timed(event: Event): void {
    const said = event.kind === "status-update" && event.message?.role === "agent" && !event.message.progress;
    if (!said && event.kind !== "artifact-update") return;
    const began = this.#began.get(event.taskId);
    if (began === undefined) return;
    this.#began.delete(event.taskId);
    this.#core.conversation.tasks.amend(event.taskId, { firstOutputMs: this.#core.now() - began });
  }
}
