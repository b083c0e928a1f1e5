/**
 * The model of a conversation: the messages to show after each event of a stream (T7, T5, M3, R11). It does no I/O.
 *
 * Events may be applied twice, for instance after a snapshot; nothing is shown twice. A rewind has three steps: `rewind`
 * hides what is cut at once; then either `apply` takes the response, which replaces everything, or `restore` shows
 * everything again, with what arrived meanwhile. If the rewind was done and only the turn after it failed, `rewound`
 * removes what was hidden.
 */

import { dequal } from "dequal/lite";
import { Artifacts } from "./artifacts";
import { type Event, INTERRUPTED, lasts, unknownParts } from "./events";
import { Failed } from "./http";
import type { Json } from "./json";
import { AT_REST, TERMINAL, Tasks } from "./tasks";
import type { Artifact, Message, TaskInfo } from "./view";

export class Conversation {
  readonly tasks = new Tasks();
  readonly artifactsOf = new Artifacts();
  /** Why the last rewind was not done; empty if it was. */
  notice = "";
  /** How many events had a form that this page does not know. */
  unknown = 0;
  /** The newest line of progress of each task. */
  readonly progress = new Map<string, string>();
  /** There are older messages that were not loaded. */
  hasOlder = false;
  /**
   * The part that is hidden while a rewind is under way: ids of messages, turns and tasks, so that it has what arrives late,
   * too. Messages that are `kept` came before it, though their task may be in it.
   */
  cut: { readonly ids: ReadonlySet<string>; readonly kept: ReadonlySet<string> } | null = null;
  /** By id, in order; a message without an id has a number instead. */
  #shown = new Map<string | number, Message>();
  #nameless = 0;
  #messages: readonly Message[] | null = null;
  #live: ReadonlyMap<string, Message> = new Map();
  /** The turns of all messages that were ever shown. */
  readonly #turns = new Set<string>();

  /** `accepted` is called when the server turns out to have a message of the user. */
  constructor(public contextId: string, tasks: Iterable<TaskInfo> = [], private readonly accepted = (): void => undefined) {
    for (const task of tasks) this.tasks.put(task);
  }

  /** Return the messages in order, without texts that still grow. */
  get messages(): readonly Message[] {
    return (this.#messages ??= this.#all.filter((message) => !this.#hides(message)));
  }

  /** Return the number of shown parts of forms unknown to this page. */
  get unknownParts(): number {
    const { messages, artifacts } = this;
    const newest = artifacts.flatMap(({ versions }) => versions.slice(-1));
    return [...messages, ...newest].reduce((sum, { parts }) => sum + unknownParts(parts), 0);
  }

  /** Return the texts that still grow, by task. */
  get live(): ReadonlyMap<string, Message> {
    const { cut } = this;
    return cut ? new Map([...this.#live].filter(([taskId]) => !cut.ids.has(taskId))) : this.#live;
  }

  /** Return the artifacts, those of older tasks first. */
  get artifacts(): readonly Artifact[] {
    const owners = [...this.taskList.map(({ id }) => id), this.contextId];
    return owners.flatMap((id) => [...(this.artifactsOf.of.get(id)?.values() ?? [])]);
  }

  /** Return the tasks of the session, oldest first, without those that are cut. */
  get taskList(): readonly TaskInfo[] {
    const { cut } = this;
    return cut ? this.tasks.list.filter(({ id }) => !cut.ids.has(id)) : this.tasks.list;
  }

  /**
   * Return what the user's next message refers to, by the last known state of the session's newest task (I3, I6). A task
   * that waits or runs is named, so that it gets the message; a terminal one takes none, so the message begins a new task
   * that refers to it. An unknown state counts as running: if it is not, the server refuses and nothing is changed.
   */
  nextMessage(): Json {
    const last = this.taskList.at(-1);
    if (!last) return {};
    return TERMINAL.has(last.state) ? { referenceTaskIds: [last.id] } : { taskId: last.id };
  }

  find(messageId: string): Message | null {
    return this.#shown.get(messageId) ?? null;
  }

  /**
   * Hide a turn and everything after it, and return what the user said in that turn. Raise Failed `REWIND_IN_FLIGHT`, or
   * `INVOCATION_NOT_FOUND` if no such turn is shown.
   */
  rewind(invocationId: string): Message | undefined {
    if (this.cut) throw new Failed("REWIND_IN_FLIGHT", "Another rewind of this conversation is under way.");
    const shown = this.#all;
    const place = invocationId ? shown.findIndex((message) => message.invocationId === invocationId) : -1;
    if (place < 0) throw new Failed("INVOCATION_NOT_FOUND", `No message here belongs to the turn ${invocationId}.`);
    // A message that failed stays: it was not said yet.
    const after = shown.slice(place).filter(({ sending }) => sending?.state !== "failed");
    const ids = after.flatMap(({ id, taskId, invocationId }) => [id, taskId, invocationId]).filter(Boolean);
    this.cut = { ids: new Set(ids), kept: named(shown.slice(0, place), "id") };
    this.notice = "";
    this.#messages = null;
    return after.find(({ role, invocationId: id }) => role === "user" && id === invocationId);
  }

  /** Show everything again after a rewind that failed. */
  restore(): void {
    this.cut = null;
    this.#messages = null;
  }

  /** Remove what a rewind hid, after it was done without a response that says what is left. */
  rewound(): void {
    this.#show(this.messages);
    this.#keep(this.taskList);
    this.cut = null;
  }

  /** Show a message of the user before the server has it. The server's copy with the same id replaces it. */
  say(message: Message): void {
    this.#upsert({ ...message, sending: { state: "sending", failure: null } });
  }

  /** Note how a message of the user fares; null: the server has it. */
  mark(messageId: string, sending: Message["sending"]): void {
    const message = this.find(messageId);
    if (message?.sending) this.#upsert({ ...message, sending });
  }

  /** Remove a message of the user that the server did not accept. */
  unsay(messageId: string): void {
    this.#shown.delete(messageId);
    this.#messages = null;
  }

  /**
   * Apply one event. `answersRewind`: it answers this client's own rewind. The session task (`id == contextId`), or a
   * full task that answers the own rewind, replaces the whole conversation; any other full task with a history replaces
   * the messages of that task, in place. A failed answer replaces nothing and its reason becomes `notice`. Unknown events
   * are counted, and late events of turns that were cut are dropped.
   */
  apply(event: Event, answersRewind = false): void {
    const { kind, taskId, message } = event;
    const turn = message?.invocationId ?? "";
    const gone = (): boolean => this.#turns.has(turn) && this.#all.every(({ invocationId }) => invocationId !== turn);
    if (kind === "message" ? turn && gone() : this.tasks.left(taskId)) return;
    if (kind === "task" && (answersRewind || taskId === this.contextId)) this.#session(event);
    else if (kind === "task") this.#task(event);
    else if (kind === "status-update") this.#status(event);
    else if (kind === "unknown") this.unknown++;
    else if (!message) this.#artifact(event);
    else if (this.find(message.id)?.sending !== null) this.#upsert(message);
  }

  /**
   * Take the newest page of the session as the server has it, with its tasks. Older messages stay if the page begins with a
   * message that is shown, and so does what the user said last and what `arrived` while the page was on its way.
   */
  reload(page: readonly Message[], more: boolean, tasks: readonly TaskInfo[], arrived: (id: string) => boolean): void {
    const shown = this.#all;
    const first = page.find(lasts)?.id;
    const place = Math.max(0, shown.findIndex(({ id }) => id && id === first));
    const tail = shown.slice(place).filter(({ id, sending }) => sending || arrived(id));
    if (!place) this.hasOlder = more;
    this.#show([...shown.slice(0, place), ...page, ...tail]);
    for (const task of tasks) this.tasks.put(task);
    this.#keep([...tasks, ...this.tasks.list.filter(({ id }) => arrived(id))]);
  }

  /** Put an older page before everything. */
  prepend(page: readonly Message[], more: boolean): void {
    this.hasOlder = more;
    this.#show([...page, ...this.#all]);
  }

  /** Take the whole conversation. A task is lost with all of its messages, or with one of its turns. */
  #session({ taskId, state, message, history, artifacts }: Event): void {
    if (state === "failed") {
      this.notice = message?.text || "The rewind failed.";
      return this.restore();
    }
    if (!history.length && state !== "completed") return;
    const before = this.#all;
    this.#show(history);
    const [there, turns] = [named(this.#all, "taskId"), named(this.#all, "invocationId")];
    const lost = before.filter((one) => !there.has(one.taskId) || (one.invocationId && !turns.has(one.invocationId)));
    const torn = named(lost, "taskId");
    this.#keep(this.tasks.list.filter(({ id }) => !torn.has(id)));
    this.#show([...this.#all, ...before.filter((one) => one.sending && !this.#hides(one))]);
    for (const piece of artifacts) this.artifactsOf.put(taskId, piece, true);
    this.cut = null;
    this.notice = "";
    this.hasOlder = false;
  }

  /** Replace the messages of a task in place. One with an empty history has merely started and keeps its messages. */
  #task(event: Event): void {
    const { taskId, message, history, artifacts } = event;
    if (!this.#enter(event)) return;
    const mine = [...history, ...(message ? [message] : [])].filter(lasts).map((one) => ({ ...one, taskId }));
    if (history.length) {
      const ids = named(mine, "id");
      const replaced = (one: Message): boolean => (one.taskId && !one.sending ? one.taskId === taskId : ids.has(one.id));
      const place = this.#all.findIndex(replaced);
      const others = this.#all.filter((one) => !replaced(one));
      this.#show(others.toSpliced(place < 0 ? others.length : place, 0, ...mine));
      this.artifactsOf.keep(taskId, new Set(artifacts.map(({ id }) => id)));
    } else mine.forEach((one) => this.#upsert(one));

    const rests = AT_REST.has(event.state);
    this.#grow(taskId, message?.partial && !rests ? { ...message, taskId } : null);
    if (rests) this.progress.delete(taskId);
    for (const piece of artifacts) this.artifactsOf.put(taskId, piece, rests);
    if (event.usage.length) this.tasks.amend(taskId, { usage: Object.fromEntries(event.usage) });
  }

  #status(event: Event): void {
    const { taskId, message } = event;
    if (!this.#enter(event)) return;
    const live = this.#live.get(taskId);
    if (message?.progress) this.progress.set(taskId, message.text);
    else if (message?.partial) {
      const text = (live?.id === message.id ? live.text : "") + message.text;
      this.#grow(taskId, { ...message, taskId, text, parts: [{ text }] });
    } else if (message) {
      if (message.role === "agent" && (message.text || live?.id === message.id)) this.#grow(taskId, null);
      if (message.parts.length) this.#upsert({ ...message, taskId });
    }
    if (AT_REST.has(event.state)) this.#settle(taskId);
    const usage = { ...this.tasks.find(taskId)?.usage };
    for (const [name, value] of event.usage) usage[name] = (usage[name] ?? 0) + value;
    if (event.usage.length) this.tasks.amend(taskId, { usage });
  }

  #artifact(event: Event): void {
    const { taskId, artifacts, append, last } = event;
    if (!this.tasks.find(taskId)) this.#enter({ ...event, state: "working" });
    const before = this.#live.get(taskId) ?? this.messages.findLast((one) => one.taskId === taskId);
    for (const piece of artifacts) this.artifactsOf.add(taskId, { ...piece, after: before?.id ?? "" }, append, last);
  }

  /** Let the growing text of a task be another one; null: none. */
  #grow(taskId: string, message: Message | null): void {
    const live = new Map(this.#live);
    if (message) this.#live = live.set(taskId, message);
    else if (live.delete(taskId)) this.#live = live;
  }

  /** End the growing text of a task at rest: without a final message it stays, marked as interrupted. */
  #settle(taskId: string): void {
    this.progress.delete(taskId);
    this.artifactsOf.settle(taskId);
    const live = this.#live.get(taskId);
    this.#grow(taskId, null);
    if (live?.text) this.#upsert({ ...live, partial: false, metadata: { ...live.metadata, [INTERRUPTED]: true } });
  }

  /** Record the state of a task; the session task is not one. Return false if the task has ended before. */
  #enter({ taskId, state, message, at, code }: Event): boolean {
    const [reason, why] = state === "failed" || state === "rejected" ? [message?.text, code] : [];
    return !taskId || taskId === this.contextId || this.tasks.enter(taskId, state, reason, at, why);
  }

  get #all(): Message[] {
    return [...this.#shown.values()];
  }

  #hides({ id, taskId, invocationId }: Message): boolean {
    const { cut } = this;
    return cut !== null && !cut.kept.has(id) && [id, taskId, invocationId].some((one) => cut.ids.has(one));
  }

  /** Show what a chat keeps of messages. Of one that occurs twice the first one is kept (T6). */
  #show(messages: readonly Message[]): void {
    const shown = new Map<string | number, Message>();
    for (const message of messages)
      if (lasts(message) && !shown.has(message.id)) shown.set(message.id || ++this.#nameless, this.#kept(message));
    this.#shown = shown;
    this.#messages = null;
  }

  #upsert(message: Message): void {
    this.#shown.set(message.id || ++this.#nameless, this.#kept(message));
    this.#messages = null;
  }

  /** Return a message as one of its task, which may be known from before; as it is shown already, if nothing has changed. */
  #kept(message: Message): Message {
    const known = this.find(message.id);
    if (known?.sending && !message.sending) this.accepted();
    this.#turns.add(message.invocationId);
    const placed = message.taskId || !known ? message : { ...message, taskId: known.taskId };
    return known && dequal(known, placed) ? known : placed;
  }

  /** Keep these tasks only. */
  #keep(tasks: readonly TaskInfo[]): void {
    this.tasks.keep(tasks);
    for (const id of this.#live.keys()) if (!this.tasks.find(id)) this.#grow(id, null);
  }
}

function named(messages: readonly Message[], key: "id" | "taskId" | "invocationId"): Set<string> {
  return new Set(messages.map((message) => message[key]).filter(Boolean));
}
