/** One open session: what it shows, and what the user can do in it. */

import type { Api } from "./api";
import { Core, type SessionOptions } from "./core";
import { REWIND_BEFORE, classify, readMessage } from "./events";
import { Failed, failureOf, unanswered } from "./failures";
import { object, text } from "./json";
import { type Outgoing, credential, messageOf, newId, sameDraft } from "./outgoing";
import { Reader } from "./reader";
import { about } from "./records";
import { sleep } from "./stream";
import type { Draft, Failure, Sent, SessionView, WireRecord } from "./view";

export type { Channel, SessionOptions } from "./core";

const OLDER_PAGE = 500;
const HIDDEN_AFTER = 30_000;
const TRIES = 4;
/** Tasks whose artifacts are shown at once; those of older ones are loaded when they are asked for. */
const RECENT = 12;

export class OpenSession {
  readonly #core: Core;
  readonly #reader: Reader;
  #acts: Promise<unknown> = Promise.resolve();
  #settled: Promise<void> = Promise.resolve();
  #hides: ReturnType<typeof setTimeout> | undefined;

  constructor(api: Api, options: SessionOptions) {
    this.#core = new Core(api, options);
    this.#reader = new Reader(this.#core);
    options.channel?.addEventListener("message", this.#heard);
  }

  /** Return the state of the session as of the last change that was told. */
  get view(): SessionView {
    return this.#core.view;
  }

  /** Call a listener after changes, at most every 33 ms (200 ms in a hidden page). Return how to end that. */
  onChange(listener: () => void): () => void {
    this.#core.listeners.add(listener);
    return () => this.#core.listeners.delete(listener);
  }

  /** Return the newest of what came and was sent, oldest first. */
  get records(): readonly WireRecord[] {
    return this.#core.records.list;
  }

  get recordCount(): number {
    return this.#core.records.total;
  }

  /** Call a listener for each record. Return how to end that. */
  onRecord(listener: (record: WireRecord) => void): () => void {
    this.#core.records.listeners.add(listener);
    return () => this.#core.records.listeners.delete(listener);
  }

  /** Load the session, if there is one already, and follow it until `close`. Return when it was loaded or refused. */
  async open(): Promise<void> {
    if (this.#core.known) await this.#reader.load().catch((error: unknown) => this.#reader.refused(error));
    this.#core.show();
    void this.#reader.run();
    void this.#reader.loadArtifacts(RECENT);
  }

  /** End everything; nothing is told to listeners any more. */
  close(): void {
    this.#core.closed.abort();
    this.#reader.interrupt();
    clearTimeout(this.#hides);
    this.#core.listeners.clear();
    this.#core.records.listeners.clear();
    this.#core.options.channel?.removeEventListener("message", this.#heard);
  }

  /** Load older messages and put them before the others. */
  async older(): Promise<void> {
    const { api, id, conversation, told } = this.#core;
    const [oldest] = conversation.messages;
    if (told.loadingOlder || !conversation.hasOlder || !oldest) return;
    this.#core.set({ loadingOlder: true });
    const { epoch } = this.#reader;
    try {
      const page = await api.messages(id, oldest.id, OLDER_PAGE);
      if (epoch === this.#reader.epoch) conversation.prepend(page.messages, page.before !== null);
    } catch (error) {
      this.#tell(failureOf(error));
    } finally {
      this.#core.set({ loadingOlder: false });
    }
  }

  /** Load the artifacts of all tasks that have ended, with the numbers of their versions. */
  loadArtifacts(): Promise<void> {
    return this.#reader.loadArtifacts();
  }

  /** Read the session again, for instance since it was changed elsewhere. */
  async refresh(): Promise<void> {
    if (!this.#core.known) return;
    if (this.#core.told.status !== "ready") this.#core.set({ status: "loading" });
    await this.#reader.load().catch((error: unknown) => this.#reader.refused(error));
    this.#reader.steer();
  }

  /**
   * Send a message. Messages are sent one after the other; while the browser is offline they wait, each once. A draft that
   * equals one that has failed repeats it, under the same id.
   */
  send(draft: Draft): Promise<Sent> {
    const { id: contextId, outgoing, conversation, known, told } = this.#core;
    const failed = [...outgoing.values()].find((out) => out.state === "failed" && sameDraft(out.draft, draft));
    if (failed) return this.retry(failed.id);
    const id = newId();
    const shown = readMessage(messageOf(id, draft, contextId, this.#goesTo()));
    outgoing.set(id, { id, draft, behind: outgoing.size > 0, began: 0, saw: "", message: null, key: id, state: "sending", failure: null });
    if (shown.parts.length) conversation.say(shown);
    if (!known) this.#core.set({ title: told.title || draft.text.slice(0, 80) });
    const sent = this.retry(id);
    this.#core.show();
    return sent;
  }

  /** Send a message again that failed: with the same id and key, so that it has one effect. */
  retry(messageId: string): Promise<Sent> {
    const out = this.#core.outgoing.get(messageId);
    if (out) this.#state(out, this.#core.online ? "sending" : "queued");
    return this.#after(() => this.#deliver(messageId));
  }

  /** Remove a message that failed or waits, and return what it said. */
  discard(messageId: string): Draft | null {
    const out = this.#core.outgoing.get(messageId);
    if (!out || out.state === "sending") return null;
    this.#drop(out);
    const { secret: _, ...draft } = out.draft;
    return draft;
  }

  /** Cancel a task, or the running one. What is shown is what the server says of it. */
  async stop(taskId = this.#core.running?.id): Promise<void> {
    const { api, stopping, records } = this.#core;
    if (!taskId || stopping.has(taskId)) return;
    stopping.add(taskId);
    this.#core.show();
    records.add("sent", "request", { method: "CancelTask", params: { id: taskId } }, { taskId });
    try {
      this.#reader.whole(await api.cancel(this.#core.agentOf(taskId), taskId));
    } catch (error) {
      const failure = failureOf(error);
      records.add("received", "error", failure, { taskId });
      const ended = failure.metadata["rpc"] === "-32002" && (await this.#reader.fetch(taskId).catch(() => false));
      stopping.delete(taskId);
      if (!ended) this.#tell(failure);
    }
    this.#reader.steer();
  }

  /**
   * Cut a turn and everything after it: shown at once, and put back if the server does not do it. Return the text of the
   * turn, to be edited and sent again.
   */
  async rewind(invocationId: string): Promise<{ text: string } | Failure> {
    let said = "";
    const failure = await this.#steering(async () => {
      said = this.#core.conversation.rewind(invocationId);
      this.#core.show();
      await this.#rewind(invocationId);
      this.#core.set({ canUndo: true });
      this.#core.broadcast("rewind");
    });
    return failure ?? { text: said };
  }

  /** Undo the last rewind. Return why it was not done. */
  async undo(): Promise<Failure | null> {
    const { api, id, conversation } = this.#core;
    const failure = await this.#steering(async () => {
      const key = newId();
      const done = await this.#persist(() => api.undo(id, key));
      const tasks = await api.taskInfos(id);
      this.#reader.epoch++;
      conversation.undone(done.messages, tasks);
      this.#core.broadcast("undo");
    });
    this.#core.set({ canUndo: failure?.retryable ?? false });
    return failure;
  }

  /** Let the next message refer to a task of the user's choice; empty: to the one that the rules say. */
  replyTo(taskId: string): void {
    this.#core.set({ replyTo: taskId });
  }

  dismiss(): void {
    this.#core.set({ notice: null });
  }

  setVisible(visible: boolean): void {
    this.#core.visible = visible;
    clearTimeout(this.#hides);
    if (visible) this.#reader.sleeps(false);
    else this.#hides = setTimeout(() => this.#reader.sleeps(true), this.#core.options.hiddenAfter ?? HIDDEN_AFTER);
  }

  /** Take what the browser says of its network. It does not know that a server on this machine needs none: that is tried. */
  setOnline(claim: boolean): void {
    const settled = (this.#settled = (claim ? Promise.resolve(true) : this.#core.api.reachable()).then((online) => {
      if (settled !== this.#settled || online === this.#core.online) return;
      this.#core.online = online;
      this.#core.set({ connection: online ? "lost" : "offline" });
      this.#reader.interrupt();
    }));
  }

  readonly #heard = (event: MessageEvent): void => {
    if (text(object(event.data) ?? {}, "session") === this.#core.id) void this.refresh();
  };

  /** Do one act after the other. */
  #after<Value>(act: () => Promise<Value>): Promise<Value> {
    const done = this.#acts.then(act, act);
    this.#acts = done.catch(() => undefined);
    return done;
  }

  /** Change the history: one at a time. Return why it was not done. */
  async #steering(act: () => Promise<void>): Promise<Failure | null> {
    if (this.#core.told.rewinding) return Failed.of("REWIND_IN_FLIGHT", "Another rewind of this conversation is under way.").failure;
    this.#core.set({ rewinding: true });
    try {
      await this.#after(act);
      return null;
    } catch (error) {
      return failureOf(error);
    } finally {
      this.#core.set({ rewinding: false });
      this.#reader.unsure();
      this.#reader.steer();
    }
  }

  async #rewind(invocationId: string): Promise<void> {
    const { api, id: contextId, conversation, records, outgoing, told } = this.#core;
    const messageId = newId();
    const metadata = { [REWIND_BEFORE]: invocationId };
    const message = { messageId, role: "ROLE_USER", contextId, parts: [{ text: "" }], metadata };
    records.add("sent", "request", { method: "SendMessage", params: { message } }, { messageId });
    const answered = (result: unknown): void => records.add("received", "response", result, { messageId });
    try {
      const event = await this.#persist(() => api.send(told.agent, message, { key: messageId, answered }));
      this.#reader.epoch++;
      this.#reader.apply(event, true);
    } catch (error) {
      const failure = failureOf(error);
      records.add("received", "error", failure, { messageId });
      if (failure.metadata["rewound"] === "true") conversation.rewound();
      if (unanswered(error)) this.#reader.interrupt();
      throw error;
    } finally {
      conversation.restore();
    }
    if (conversation.notice) {
      void this.refresh();
      throw Failed.of("NOT_REWOUND", conversation.notice);
    }
    for (const id of outgoing.keys()) if (!conversation.has(id)) outgoing.delete(id);
  }

  async #deliver(id: string): Promise<Sent> {
    const { outgoing, records, closed } = this.#core;
    for (;;) {
      while (!this.#core.online && !closed.signal.aborted) await this.#onlineAgain();
      const out = outgoing.get(id);
      if (!out) return { ok: false, failure: Failed.of("GONE", "This message was removed.").failure };
      this.#state(out, "sending");
      try {
        await this.#post(out);
        return { ok: true, sessionId: this.#core.id };
      } catch (error) {
        const failure = failureOf(error);
        records.add("received", "error", failure, { messageId: id });
        await this.#settled;
        if (!this.#core.online && failure.status === 0) this.#state(out, "queued");
        else if (!(await this.#resolved(out, failure))) {
          this.#core.show();
          return { ok: false, failure };
        }
      }
    }
  }

  async #post(out: Outgoing): Promise<void> {
    const { api, id: contextId, conversation, outgoing, records, running, now, told } = this.#core;
    const guarded = out.message === null && !out.behind && running === null;
    out.began = now();
    out.saw = this.#signature();
    const message = (out.message ??= messageOf(out.id, out.draft, contextId, this.#goesTo()));
    const { secret } = out.draft;
    const params = { message, ...credential(secret && "***") };
    records.add("sent", "request", { method: "SendMessage", params }, { messageId: out.id });
    const answered = (result: unknown): void => records.add("received", "response", result, about(classify(result)));
    const event = await api.send(told.agent, message, { key: out.key, version: guarded ? told.version : 0, secret, answered });
    outgoing.delete(out.id);
    conversation.accept(out.id);
    this.#core.known = true;
    this.#core.sent();
    this.#core.set({ status: "ready", canUndo: false, replyTo: "", notice: null });
    this.#reader.unsure();
    this.#reader.answered(event, out.id, out.began);
    this.#core.broadcast("send");
    this.#reader.steer();
  }

  /** Handle the refusal of a message; return whether it is to be sent once more. */
  async #resolved(out: Outgoing, failure: Failure): Promise<boolean> {
    const named = text(out.message ?? {}, "taskId");
    const stale = failure.code === "VERSION_MISMATCH";
    if (stale || (failure.metadata["rpc"] === "-32004" && named)) {
      await this.#reader.load().catch(() => undefined);
      const unchanged = out.saw === this.#signature();
      if (stale ? unchanged : !this.#goesTo().taskId && this.#core.conversation.tasks.find(named)) {
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
    if (!failure.retryable) out.message = null;
    this.#state(out, "failed", failure);
    return false;
  }

  /** Return what of the session matters to somebody who writes. */
  #signature(): string {
    const { conversation, outgoing } = this.#core;
    const messages = conversation.messages.filter((message) => !outgoing.has(message.id));
    return JSON.stringify([conversation.taskList.map((task) => task.id), messages.length, messages.at(-1)?.id]);
  }

  /** Do what has one effect however often it is done, until it is answered or was tried often enough. */
  async #persist<Value>(act: () => Promise<Value>): Promise<Value> {
    const first = this.#core.options.pauses?.first ?? 250;
    for (let attempt = 1; ; attempt++) {
      try {
        return await act();
      } catch (error) {
        if (!unanswered(error) || attempt === TRIES) throw error;
        await sleep(first * 2 ** attempt, this.#core.closed.signal);
      }
    }
  }

  #goesTo(): { taskId: string; referenceTaskIds: readonly string[] } {
    const { conversation, told } = this.#core;
    return told.replyTo ? { taskId: "", referenceTaskIds: [told.replyTo] } : conversation.nextMessage();
  }

  #onlineAgain(): Promise<void> {
    return new Promise((resolve) => {
      const stop = this.onChange(() => {
        if (!this.#core.online) return;
        stop();
        resolve();
      });
      this.#core.closed.signal.addEventListener("abort", () => resolve(), { once: true });
    });
  }

  #state(out: Outgoing, state: Outgoing["state"], failure: Failure | null = null): void {
    Object.assign(out, { state, failure });
    this.#core.sent();
  }

  #drop(out: Outgoing): void {
    this.#core.outgoing.delete(out.id);
    this.#core.conversation.unsay(out.id);
    this.#core.sent();
  }

  #tell({ code, message }: Failure): void {
    this.#core.set({ notice: { code, text: message } });
  }
}
