/**
 * The model of a conversation: the messages to show after each event of a stream (T7, T5, M3, R11). It does no I/O.
 *
 * Events may be applied twice, for instance after a snapshot; nothing is shown twice. A rewind has three steps: `rewind`
 * hides what is cut at once; then either `apply` takes the response, which replaces everything, or `restore` shows
 * everything again, with what arrived meanwhile. If the rewind was done and only the turn after it failed, `rewound`
 * removes what was hidden.
 */

import { Artifacts } from "./artifacts";
import { type Continuation, continuation } from "./continuation";
import { type Cut, Removed, type Turn, cameAfter, cutAt, hides, lost, turns } from "./cut";
import { type ArtifactUpdate, type Event, type FullTask, INTERRUPTED, type StatusUpdate, usageOf } from "./events";
import { Failed } from "./failures";
import { AT_REST, TERMINAL } from "./states";
import { Tasks } from "./tasks";
import type { Artifact, Message, State, TaskInfo } from "./view";

export class Conversation {
  contextId: string;
  readonly tasks: Tasks;
  readonly artifactsOf = new Artifacts();
  /** Why the last rewind was not done; empty if it was. */
  notice = "";
  unknown = 0;
  /** There are older messages that were not loaded. */
  hasOlder = false;
  #shown: Message[] = [];
  #index = new Map<string, number>();
  #messages: readonly Message[] | null = null;
  #artifacts: { all: readonly Artifact[]; tasks: readonly TaskInfo[]; shown: readonly Artifact[] } | null = null;
  readonly #live = new Map<string, Message>();
  readonly #progress = new Map<string, string>();
  readonly #tasksOf = new Map<string, string>();
  readonly #said = new Set<string>();
  #cut: Cut | null = null;
  readonly #removed = new Removed();

  constructor(contextId = "", tasks: Iterable<TaskInfo> = []) {
    this.contextId = contextId;
    this.tasks = new Tasks(tasks);
  }

  /** Return the messages in order, without texts that still grow. */
  get messages(): readonly Message[] {
    const cut = this.#cut;
    return (this.#messages ??= cut ? this.#shown.filter((message) => !hides(cut, message)) : [...this.#shown]);
  }

  /** Return the texts that still grow, by task. */
  get live(): ReadonlyMap<string, Message> {
    return this.#inEffect(this.#live);
  }

  /** Return the newest line of progress of each task. */
  get progress(): ReadonlyMap<string, string> {
    return this.#inEffect(this.#progress);
  }

  /** Return the artifacts, those of older tasks first. */
  get artifacts(): readonly Artifact[] {
    const all = this.artifactsOf.list;
    const tasks = this.taskList;
    if (this.#artifacts?.all === all && this.#artifacts.tasks === tasks) return this.#artifacts.shown;
    const places = new Map(tasks.map((task, index) => [task.id, index]));
    const place = ({ taskId }: Artifact): number => places.get(taskId) ?? tasks.length;
    const shown = all.filter(({ taskId }) => this.#shows(taskId)).sort((a, b) => place(a) - place(b));
    this.#artifacts = { all, tasks, shown };
    return shown;
  }

  /** Return the tasks of the session, oldest first, without those that are cut. */
  get taskList(): readonly TaskInfo[] {
    const cut = this.#cut;
    return cut ? this.tasks.list.filter((task) => !cut.tasks.has(task.id)) : this.tasks.list;
  }

  /** Return the references of the user's next message (I6). */
  nextMessage(): Continuation {
    return continuation(this.taskList.at(-1) ?? null);
  }

  /** Return the user's messages that a rewind can name, oldest first. */
  get turns(): Turn[] {
    return turns(this.messages);
  }

  get rewinding(): boolean {
    return this.#cut !== null;
  }

  has(messageId: string): boolean {
    return this.#index.has(messageId);
  }

  /** Return whether events of a task are dropped because it was cut. */
  dropped(taskId: string): boolean {
    return !this.#shows(taskId);
  }

  /**
   * Hide a turn and everything after it, and return the user's text of that turn. Raise Failed `REWIND_IN_FLIGHT`, or
   * `INVOCATION_NOT_FOUND` if no such turn is shown.
   */
  rewind(invocationId: string): string {
    if (this.#cut) throw Failed.of("REWIND_IN_FLIGHT", "Another rewind of this conversation is under way.");
    const place = invocationId ? this.#shown.findIndex((message) => message.invocationId === invocationId) : -1;
    if (place < 0) throw Failed.of("INVOCATION_NOT_FOUND", `No message here belongs to the turn ${invocationId}.`);
    const turn = this.turns.find(({ message }) => message.invocationId === invocationId);
    const ids = this.tasks.list.map((task) => task.id);
    this.#cut = cutAt(place, this.#shown, this.hasOlder ? ids.filter((id) => this.tasks.find(id)?.completedAt === "") : ids);
    this.notice = "";
    this.#messages = null;
    return turn?.message.text ?? "";
  }

  /** Show everything again after a rewind that failed. */
  restore(): void {
    this.#cut = null;
    this.#messages = null;
  }

  /** Remove what a rewind hid, after it was done without a response that says what is left. */
  rewound(): void {
    const cut = this.#cut;
    if (!cut) return;
    this.#cut = null;
    this.#show(this.#shown.filter((message) => !hides(cut, message)));
    this.#remove(cut.tasks, cut.invocations);
  }

  /** Replace messages and tasks by those of the session after an undo. */
  undone(messages: readonly Message[], tasks: readonly TaskInfo[]): void {
    this.#cut = null;
    this.#live.clear();
    this.#progress.clear();
    this.hasOlder = false;
    this.#show(this.#placed(messages));
    this.tasks.replace(tasks);
    this.#bringBack(tasks);
  }

  /** Show a message of the user before the server has it; the server's copy with the same id replaces it. */
  say(message: Message): void {
    this.#upsert(message, message.taskId);
    this.#said.add(message.id);
  }

  /** Note that the server has a message of the user. */
  accept(messageId: string): void {
    this.#said.delete(messageId);
  }

  /** Remove a message of the user that the server did not accept. */
  unsay(messageId: string): void {
    this.#said.delete(messageId);
    this.#show(this.#shown.filter((message) => message.id !== messageId));
  }

  /**
   * Apply one event. `answersRewind`: it answers this client's own rewind. The session task (`id == contextId`), or a
   * full task that answers the own rewind, replaces the whole conversation; any other full task with a history replaces
   * the messages of that task, in place. A failed answer replaces nothing and its reason becomes `notice`. Unknown events
   * are counted, and late events of turns that were cut are dropped.
   */
  apply(event: Event, answersRewind = false): void {
    if (this.#removed.has(event)) return;
    switch (event.kind) {
      case "task":
        return this.#fullTask(event, answersRewind);
      case "status-update":
        return this.#status(event);
      case "artifact-update":
        return this.#artifact(event);
      case "message":
        this.contextId ||= event.message.contextId;
        if (!this.#index.has(event.message.id) || this.#said.has(event.message.id))
          this.#upsert(event.message, event.message.taskId);
        return;
      default:
        this.unknown++;
    }
  }

  /** Show the tasks of a session, oldest first. Of a message that occurs twice the first one is kept (T6). */
  load(tasks: Iterable<FullTask>): void {
    for (const task of tasks) {
      this.#removed.tasks.delete(task.id);
      this.#fullTask(task, false);
    }
  }

  /**
   * Take the newest page of the session as the server has it, with its tasks. Older messages stay if the page begins with
   * a message that is shown, and so does what the user said last and what `arrived` while the page was on its way.
   */
  reload(page: readonly Message[], more: boolean, tasks: readonly TaskInfo[], arrived: (id: string) => boolean): void {
    const loaded = this.#placed(page);
    const ids = new Set(loaded.map((message) => message.id));
    const place = loaded[0] ? this.#index.get(loaded[0].id) : undefined;
    const stays = (message: Message): boolean => !ids.has(message.id) && (this.#said.has(message.id) || arrived(message.id));
    const tail = this.#shown.slice(place ?? 0).filter(stays);
    if (!place) this.hasOlder = more;
    const known = new Set(tail.map((message) => message.taskId));
    this.#show([...this.#shown.slice(0, place ?? 0), ...loaded, ...tail]);
    this.#bringBack(tasks);
    this.tasks.replace(tasks, (task) => known.has(task.id) || arrived(task.id));
  }

  /** Put an older page before everything. */
  prepend(page: readonly Message[], more: boolean): void {
    this.hasOlder = more;
    this.#show([...this.#placed(page).filter((message) => !this.#index.has(message.id)), ...this.#shown]);
  }

  #fullTask(task: FullTask, answersRewind: boolean): void {
    this.contextId ||= task.contextId;
    const whole = answersRewind || task.id === this.contextId;
    if (whole && task.state === "failed") {
      this.notice = task.message?.text || "The rewind failed.";
      this.restore();
    } else if (whole) {
      if (task.history.length || task.state === "completed") this.#replaceAll(task);
    } else if (!this.#late(task.id, task.state)) {
      this.#enter(task.id, task.state, task.message, task.at);
      this.#replaceTask(task);
    }
  }

  #replaceAll(task: FullTask): void {
    const before = this.#shown;
    const cut = this.#cut;
    const history = this.#placed(task.history);
    const gone = lost(before, history, cut);
    const ids = new Set(history.map((message) => message.id));
    const stays = (message: Message): boolean => (cut ? cameAfter(cut, message) : this.#said.has(message.id));
    this.#cut = null;
    this.#live.clear();
    this.#progress.clear();
    this.#show([...history, ...before.filter((message) => stays(message) && !ids.has(message.id))]);
    this.#remove(gone.tasks, gone.invocations);
    for (const piece of task.artifacts) this.artifactsOf.put(task.id, piece, true);
    this.notice = "";
    this.hasOlder = false;
    this.#enter(task.id, task.state, task.message, task.at);
  }

  /** Replace the messages of a task in place. One with an empty history has merely started and keeps its messages. */
  #replaceTask(task: FullTask): void {
    const { id, message } = task;
    const current = message ? [message] : [];
    const kept = this.#shown.filter((shown) => shown.taskId === id && (!task.history.length || this.#said.has(shown.id)));
    const history = chat(task.history.length ? [...task.history, ...current, ...kept] : [...kept, ...current]);
    const ids = new Set(history.map((item) => item.id).filter(Boolean));
    const replaced = (shown: Message): boolean => shown.taskId === id || (!shown.taskId && ids.has(shown.id));
    const found = this.#shown.findIndex(replaced);
    const place = found < 0 ? this.#shown.length : found;
    const before = this.#shown.slice(0, place);
    const after = this.#shown.slice(place).filter((shown) => !replaced(shown));
    const seen = new Set([...before, ...after].map((shown) => shown.id));
    const mine = history.filter((item) => !item.id || !seen.has(item.id));
    for (const item of task.history) this.#said.delete(item.id);
    this.#show([...before, ...mine.map((item) => this.#kept(item, id)), ...after]);

    this.#live.delete(id);
    const rests = AT_REST.has(task.state);
    if (message?.partial && !rests) this.#live.set(id, { ...message, taskId: id });
    if (rests) this.#progress.delete(id);
    if (task.history.length) this.artifactsOf.keep(id, new Set(task.artifacts.map((piece) => piece.id)));
    for (const piece of task.artifacts) this.artifactsOf.put(id, piece, rests);
    const usage = usageOf(task.metadata);
    if (Object.keys(usage).length) this.tasks.amend(id, { usage });
  }

  #status(update: StatusUpdate): void {
    const { taskId, state, message } = update;
    this.contextId ||= update.contextId;
    if (this.#late(taskId, state)) return;
    this.#enter(taskId, state, message, update.at);
    if (message?.progress) this.#progress.set(taskId, message.text);
    else if (message?.partial) this.#grow(taskId, message);
    else if (message) this.#final(taskId, message);
    if (AT_REST.has(state)) this.#settle(taskId);
    const figures = Object.entries(usageOf(update.metadata));
    if (!figures.length) return;
    const usage = { ...this.tasks.find(taskId)?.usage };
    for (const [name, value] of figures) usage[name] = (usage[name] ?? 0) + value;
    this.tasks.amend(taskId, { usage });
  }

  #grow(taskId: string, piece: Message): void {
    const live = this.#live.get(taskId);
    const text = (live?.id === piece.id ? live.text : "") + piece.text;
    this.#live.set(taskId, { ...piece, taskId, text, parts: [{ text }] });
  }

  #final(taskId: string, message: Message): void {
    const live = this.#live.get(taskId);
    if (live && message.role === "agent" && (message.text || live.id === message.id)) this.#live.delete(taskId);
    if (message.parts.length) this.#upsert(message, taskId);
  }

  /** End the growing text of a task at rest: without a final message it stays, marked as interrupted. */
  #settle(taskId: string): void {
    this.#progress.delete(taskId);
    this.artifactsOf.settle(taskId);
    const live = this.#live.get(taskId);
    this.#live.delete(taskId);
    if (!live?.text) return;
    const metadata = { ...live.metadata, kagent_adk_partial: false, adk_partial: false, [INTERRUPTED]: true };
    this.#upsert({ ...live, partial: false, metadata }, taskId);
  }

  #artifact(update: ArtifactUpdate): void {
    this.contextId ||= update.contextId;
    this.artifactsOf.add(update.taskId, update.artifact, update.append, update.last);
  }

  #upsert(message: Message, taskId: string): void {
    const index = message.id ? this.#index.get(message.id) : undefined;
    const known = index === undefined ? undefined : this.#shown[index];
    this.#said.delete(message.id);
    const shown = this.#kept(message, taskId || known?.taskId || "");
    if (shown === known) return;
    this.#messages = null;
    if (index !== undefined) this.#shown[index] = shown;
    else {
      if (message.id) this.#index.set(message.id, this.#shown.length);
      this.#shown.push(shown);
    }
  }

  #late(taskId: string, state: State): boolean {
    const known = this.tasks.find(taskId);
    return known !== null && TERMINAL.has(known.state) && !TERMINAL.has(state);
  }

  /** Record the state of a task; the session task is not one. */
  #enter(taskId: string, state: State, message: Message | null, at: string): void {
    if (taskId && taskId !== this.contextId) this.tasks.enter(taskId, state, message?.text ?? "", at);
  }

  /** Return a whole history. Where a message does not name its task, it is taken from what was shown before. */
  #placed(messages: readonly Message[]): Message[] {
    for (const shown of this.#shown) if (shown.taskId) this.#tasksOf.set(shown.id, shown.taskId);
    for (const message of messages) this.#said.delete(message.id);
    return chat(messages).map((message) => this.#kept(message, message.taskId || this.#tasksOf.get(message.id) || ""));
  }

  /** Return a message as one of a task: the object that is shown already, if nothing in it has changed. */
  #kept(message: Message, taskId: string): Message {
    const placed = message.taskId === taskId ? message : { ...message, taskId };
    const known = this.#shown[this.#index.get(message.id) ?? -1];
    return known && JSON.stringify(known) === JSON.stringify(placed) ? known : placed;
  }

  #show(messages: Message[]): void {
    this.#shown = messages;
    this.#index = new Map();
    messages.forEach((message, index) => {
      if (message.id) this.#index.set(message.id, index);
    });
    this.#messages = null;
  }

  #remove(tasks: ReadonlySet<string>, invocations: ReadonlySet<string>): void {
    for (const id of tasks) {
      this.#removed.tasks.add(id);
      this.#live.delete(id);
      this.#progress.delete(id);
    }
    for (const id of invocations) this.#removed.invocations.add(id);
    this.tasks.remove(tasks);
  }

  #bringBack(tasks: readonly TaskInfo[]): void {
    for (const task of tasks) this.#removed.tasks.delete(task.id);
    for (const message of this.#shown) this.#removed.invocations.delete(message.invocationId);
  }

  #shows(taskId: string): boolean {
    return !this.#removed.tasks.has(taskId) && !this.#cut?.tasks.has(taskId);
  }

  #inEffect<Value>(of: ReadonlyMap<string, Value>): ReadonlyMap<string, Value> {
    return new Map([...of].filter(([taskId]) => this.#shows(taskId)));
  }
}

/** Return the messages that a chat shows: no lines of progress, no pieces, and the first one of each id. */
function chat(messages: Iterable<Message>): Message[] {
  const seen = new Set<string>();
  const found: Message[] = [];
  for (const message of messages) {
    if (message.progress || message.partial || !message.parts.length || (message.id && seen.has(message.id))) continue;
    seen.add(message.id);
    found.push(message);
  }
  return found;
}
