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
import { type Cut, cameAfter, cutAt, hides, lost } from "./cut";
import { type Event, INTERRUPTED, lasts } from "./events";
import { Failed } from "./failures";
import type { Continuation } from "./outgoing";
import { AT_REST, TERMINAL } from "./states";
import { Tasks } from "./tasks";
import type { Artifact, Message, TaskInfo } from "./view";

export class Conversation {
  readonly tasks: Tasks;
  readonly artifactsOf = new Artifacts();
  /** Why the last rewind was not done; empty if it was. */
  notice = "";
  unknown = 0;
  /** The newest line of progress of each task. */
  readonly progress = new Map<string, string>();
  /** There are older messages that were not loaded. */
  hasOlder = false;
  /** By id, in order; a message without an id has a number instead. */
  #shown = new Map<string | number, Message>();
  #nameless = 0;
  #messages: readonly Message[] | null = null;
  #artifacts: { all: readonly Artifact[]; tasks: readonly TaskInfo[]; shown: readonly Artifact[] } | null = null;
  #live: ReadonlyMap<string, Message> = new Map();
  /** The part that is hidden while a rewind is under way. */
  cut: Cut | null = null;
  /** What was cut for good; late events of it are dropped. */
  readonly #removed = { tasks: new Set<string>(), invocations: new Set<string>() };

  constructor(public contextId: string, tasks: Iterable<TaskInfo> = []) {
    this.tasks = new Tasks(tasks);
  }

  /** Return the messages in order, without texts that still grow. */
  get messages(): readonly Message[] {
    const cut = this.cut;
    return (this.#messages ??= this.#all.filter((message) => !cut || !hides(cut, message)));
  }

  /** Return the texts that still grow, by task. */
  get live(): ReadonlyMap<string, Message> {
    const cut = this.cut;
    return cut ? new Map([...this.#live].filter(([taskId]) => !cut.tasks.has(taskId))) : this.#live;
  }

  /** Return the artifacts, those of older tasks first. */
  get artifacts(): readonly Artifact[] {
    const all = this.artifactsOf.list;
    const tasks = this.taskList;
    if (this.#artifacts?.all === all && this.#artifacts.tasks === tasks) return this.#artifacts.shown;
    const places = new Map(tasks.map((task, index) => [task.id, index]));
    const place = ({ taskId }: Artifact): number => places.get(taskId) ?? tasks.length;
    const there = ({ taskId }: Artifact): boolean => !this.#removed.tasks.has(taskId) && !this.cut?.tasks.has(taskId);
    const shown = all.filter(there).sort((a, b) => place(a) - place(b));
    this.#artifacts = { all, tasks, shown };
    return shown;
  }

  /** Return the tasks of the session, oldest first, without those that are cut. */
  get taskList(): readonly TaskInfo[] {
    const cut = this.cut;
    return cut ? this.tasks.list.filter((task) => !cut.tasks.has(task.id)) : this.tasks.list;
  }

  /**
   * Return the references of the user's next message, by the last known state of the session's newest task (I3, I6). A task
   * that waits or runs is named, so that it gets the message; a terminal one takes none, so the message begins a new task
   * that refers to it. An unknown state counts as running: if it is not, the server refuses and nothing is changed.
   */
  nextMessage(): Continuation {
    const last = this.taskList.at(-1);
    const ended = last && TERMINAL.has(last.state);
    return { taskId: (!ended && last?.id) || "", referenceTaskIds: ended ? [last.id] : [] };
  }

  /** Return whether the server has a message. */
  accepted(messageId: string): boolean {
    return this.#shown.get(messageId)?.said === false;
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
    const ids = this.tasks.list.map((task) => task.id);
    this.cut = cutAt(place, shown, this.hasOlder ? ids.filter((id) => this.tasks.find(id)?.completedAt === "") : ids);
    this.notice = "";
    this.#messages = null;
    return shown.find(({ role, invocationId: id }) => role === "user" && id === invocationId);
  }

  /** Show everything again after a rewind that failed. */
  restore(): void {
    this.cut = null;
    this.#messages = null;
  }

  /** Remove what a rewind hid, after it was done without a response that says what is left. */
  rewound(): void {
    const cut = this.cut;
    if (!cut) return;
    this.cut = null;
    this.#show(this.#all.filter((message) => !hides(cut, message)));
    this.#remove(cut.tasks, cut.invocations);
  }

  /** Show a message of the user before the server has it; the server's copy with the same id replaces it. */
  say(message: Message): void {
    this.#upsert({ ...message, said: true });
  }

  /** Note that the server has a message of the user. */
  accept(messageId: string): void {
    const message = this.#shown.get(messageId);
    if (message?.said) this.#upsert({ ...message, said: false });
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
    const { tasks, invocations } = this.#removed;
    if (kind === "message" ? invocations.has(message?.invocationId ?? "") : tasks.has(taskId)) return;
    if (kind === "task" && (answersRewind || taskId === this.contextId)) this.#session(event);
    else if (kind === "task") this.#task(event);
    else if (kind === "status-update") this.#status(event);
    else if (kind === "unknown") this.unknown++;
    else if (!message) for (const piece of event.artifacts) this.artifactsOf.add(taskId, piece, event.append, event.last);
    else if (this.#shown.get(message.id)?.said ?? true) this.#upsert(message);
  }

  /**
   * Take the newest page of the session as the server has it, with its tasks; after an undo, all of it. Older messages stay
   * if the page begins with a message that is shown, and so does what the user said last and what `arrived` while the page
   * was on its way.
   */
  reload(page: readonly Message[], more: boolean, tasks: readonly TaskInfo[], arrived = (_id: string): boolean => false): void {
    const shown = this.#all;
    const loaded = this.#placed(page);
    const place = Math.max(0, shown.findIndex(({ id }) => id && id === loaded[0]?.id));
    const tail = shown.slice(place).filter(({ id, said }) => said || arrived(id));
    if (!place) this.hasOlder = more;
    this.#show([...shown.slice(0, place), ...loaded, ...tail]);
    const before = this.tasks.list.filter(({ id }) => !arrived(id));
    for (const { id } of before) this.#removed.tasks.add(id);
    for (const { id } of tasks) this.#removed.tasks.delete(id);
    for (const { invocationId } of this.#all) this.#removed.invocations.delete(invocationId);
    this.tasks.replace(tasks, ({ id }) => arrived(id));
    for (const id of this.#live.keys()) if (!this.tasks.find(id)) this.#grow(id, null);
  }

  /** Put an older page before everything. */
  prepend(page: readonly Message[], more: boolean): void {
    this.hasOlder = more;
    this.#show([...this.#placed(page), ...this.#all]);
  }

  /** Take the whole conversation. */
  #session(event: Event): void {
    const { taskId, state, history } = event;
    if (state === "failed") {
      this.notice = event.message?.text || "The rewind failed.";
      return this.restore();
    }
    if (!history.length && state !== "completed") return;
    const before = this.#all;
    const cut = this.cut;
    const after = this.#placed(history);
    const gone = lost(before, after, cut);
    this.cut = null;
    this.#live = new Map();
    this.progress.clear();
    this.#show([...after, ...before.filter((message) => (cut ? cameAfter(cut, message) : message.said))]);
    this.#remove(gone.tasks, gone.invocations);
    for (const piece of event.artifacts) this.artifactsOf.put(taskId, piece, true);
    this.notice = "";
    this.hasOlder = false;
    this.#enter(event);
  }

  /** Replace the messages of a task in place. One with an empty history has merely started and keeps its messages. */
  #task(event: Event): void {
    const { taskId, message, history, artifacts } = event;
    if (!this.#enter(event)) return;
    const whole = history.length > 0;
    const shown = this.#all;
    const current = message ? [message] : [];
    const kept = shown.filter((one) => one.taskId === taskId && (!whole || one.said));
    const all = (whole ? [...history, ...current, ...kept] : [...kept, ...current]).filter(lasts);
    const ids = new Set(all.map(({ id }) => id).filter(Boolean));
    const replaced = (one: Message): boolean => one.taskId === taskId || (!one.taskId && ids.has(one.id));
    const place = shown.findIndex(replaced);
    const others = shown.filter((one) => !replaced(one));
    const mine = all.map((one) => this.#kept(one, taskId)).filter((one) => replaced(this.#shown.get(one.id) ?? one));
    this.#show(others.toSpliced(place < 0 ? others.length : place, 0, ...mine));

    const rests = AT_REST.has(event.state);
    this.#grow(taskId, message?.partial && !rests ? { ...message, taskId } : null);
    if (rests) this.progress.delete(taskId);
    if (whole) this.artifactsOf.keep(taskId, new Set(artifacts.map(({ id }) => id)));
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
      if (message.parts.length) this.#upsert(message, taskId);
    }
    if (AT_REST.has(event.state)) this.#settle(taskId);
    const usage = { ...this.tasks.find(taskId)?.usage };
    for (const [name, value] of event.usage) usage[name] = (usage[name] ?? 0) + value;
    if (event.usage.length) this.tasks.amend(taskId, { usage });
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
    if (!live?.text) return;
    const metadata = { ...live.metadata, kagent_adk_partial: false, adk_partial: false, [INTERRUPTED]: true };
    this.#upsert({ ...live, partial: false, metadata }, taskId);
  }

  #upsert(message: Message, taskId = ""): void {
    this.#shown.set(message.id || ++this.#nameless, this.#kept(message, taskId));
    this.#messages = null;
  }

  /** Record the state of a task; the session task is not one. Return false if the task has ended before. */
  #enter({ taskId, state, message, at }: Event): boolean {
    return !taskId || taskId === this.contextId || this.tasks.enter(taskId, state, message?.text ?? "", at);
  }

  get #all(): Message[] {
    return [...this.#shown.values()];
  }

  /** Return what a chat keeps of a history. */
  #placed(messages: readonly Message[]): Message[] {
    return messages.filter(lasts).map((message) => this.#kept(message));
  }

  /**
   * Return a message as one of a task; without one as of the task that it names, or belonged to before. It is the object
   * that is shown already, if nothing in it has changed.
   */
  #kept(message: Message, taskId = ""): Message {
    const known = this.#shown.get(message.id);
    const placed = { ...message, taskId: taskId || message.taskId || (known?.taskId ?? "") };
    return known && dequal(known, placed) ? known : placed;
  }

  /** Show messages. Of one that occurs twice the first one is kept (T6). */
  #show(messages: readonly Message[]): void {
    this.#shown = new Map();
    for (const message of messages)
      if (!this.#shown.has(message.id)) this.#shown.set(message.id || ++this.#nameless, message);
    this.#messages = null;
  }

  #remove(tasks: ReadonlySet<string>, invocations: ReadonlySet<string>): void {
    for (const id of tasks) {
      this.#removed.tasks.add(id);
      this.#grow(id, null);
    }
    for (const id of invocations) this.#removed.invocations.add(id);
    this.tasks.replace(this.tasks.list.filter(({ id }) => !tasks.has(id)));
  }
}
