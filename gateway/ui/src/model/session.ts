/** One open session: what the user can do in it. */

import { dequal } from "dequal/lite";
import { type Event, REWIND_BEFORE, classify, messageOf, newId, readMessage, unknownIn } from "./events";
import { FollowedSession } from "./followed";
import { Failed, type Request, failureOf, sleep } from "./http";
import { type Json, text } from "./json";
import type { WireRecord } from "./records";
import type { Draft, Failure, Message } from "./view";

const OLDER_PAGE = 500;
/** Milliseconds. */
const SEEK = 2_000;
/** Milliseconds: an agent may answer directly, after as long as its model takes. */
const SEND_TIMEOUT = 180_000;

/** A message of the user that the server does not have, as it is sent. */
interface Outgoing {
  readonly id: string;
  readonly draft: Draft;
  /** Another message was under way when it was written, so the version that the user saw says nothing. */
  readonly behind: boolean;
  /** It was sent before, and the server may have it. */
  repeats: boolean;
  /** Made once, so that a repetition is the same message; null before the first attempt. */
  message: Json | null;
  /** The idempotency key; another one if another message is sent under the same id. */
  key: string;
}

export class OpenSession extends FollowedSession {
  /** Some of them may have arrived, or been cut: see `#unsent`. */
  readonly #outgoing = new Map<string, Outgoing>();
  #acts: Promise<unknown> = Promise.resolve();

  /** Load older messages and put them before the others. */
  async older(): Promise<void> {
    const { api, id, conversation, told, epoch } = this;
    const [oldest] = conversation.messages;
    if (told.loadingOlder || !conversation.hasOlder || !oldest) return;
    this.set({ loadingOlder: true });
    const page = await api.messages(id, oldest.id, OLDER_PAGE).catch((error: unknown) => this.set({ notice: failureOf(error) }));
    if (page && epoch === this.epoch) conversation.prepend(page.messages, page.before !== null);
    this.set({ loadingOlder: false });
  }

  /**
   * Send a message. Messages are sent one after the other; while the browser is offline they wait, each once. A draft that
   * equals one that has failed repeats it, under the same id; `as`: one that failed before the page was loaded. Return why
   * it was not taken.
   */
  send(draft: Draft, as = { id: newId(), contextId: this.id, repeats: false }): Promise<Failure | null> {
    const { conversation, told } = this;
    const waiting = conversation.messages.filter(({ sending }) => sending);
    const same = waiting.find(({ id, sending }) => sending?.state === "failed" && dequal(this.#unsent(id)?.draft, draft));
    if (same) return this.retry(same.id);
    const id = this.#unsent(as.id) ? newId() : as.id;
    if (told.status === "new") conversation.contextId = as.contextId;
    conversation.say(readMessage(messageOf(id, draft, this.id, this.#goesTo())));
    this.#outgoing.set(id, { id, draft, behind: waiting.length > 0, repeats: as.repeats, message: null, key: id });
    if (told.status === "new") this.set({ title: told.title || draft.text.slice(0, 80) });
    const sent = this.retry(id);
    this.show();
    return sent;
  }

  /** Send a message again that failed: with the same id and key, so that it has one effect. Return why it was not taken. */
  async retry(messageId: string): Promise<Failure | null> {
    this.#mark(messageId, this.online ? "sending" : "queued");
    const failure = await this.#after(() => this.#deliver(messageId));
    if (!failure) this.#outgoing.delete(messageId);
    return failure;
  }

  /** Remove a message that failed or waits, and return what it said; null for a credential, which is not given back. */
  discard(messageId: string): Draft | null {
    const out = this.#unsent(messageId);
    if (!out || this.conversation.find(messageId)?.sending?.state === "sending") return null;
    this.conversation.unsay(messageId);
    this.#outgoing.delete(messageId);
    this.changed();
    return out.draft.secret ? null : out.draft;
  }

  /** Cancel a task, or the running one. What is shown is what the server says of it. */
  async stop(taskId = this.running?.id): Promise<void> {
    if (!taskId || this.stopping.has(taskId)) return;
    this.stopping.add(taskId);
    this.show();
    const failure = await this.#call("CancelTask", { id: taskId }, { taskId }).then(() => null, failureOf);
    const mayHave = !failure || failure.retryable || failure.metadata["rpc"] === "-32002";
    const ended = mayHave && (await this.fetch(taskId).catch(() => false));
    if (failure && !ended) {
      this.stopping.delete(taskId);
      this.set({ notice: failure });
    }
    this.steer();
  }

  /**
   * Cut a turn and everything after it: shown at once, and put back if the server does not do it. Return what the user
   * said in the turn, to be edited and sent again.
   */
  async rewind(invocationId: string): Promise<Pick<Message, "id" | "text"> | Failure> {
    const { conversation } = this;
    const key = newId();
    const message = messageOf(key, { text: "", files: [] }, this.id, { metadata: { [REWIND_BEFORE]: invocationId } });
    let said: Pick<Message, "id" | "text"> = { id: "", text: "" };
    const failure = await this.#steering(async () => {
      said = conversation.rewind(invocationId) ?? said;
      this.show();
      try {
        const event = await this.persist(() => this.#sendMessage(message, key));
        this.apply(event, true);
        if (conversation.notice) throw new Failed("NOT_REWOUND", conversation.notice);
        this.set({ canUndo: true });
      } catch (error) {
        if (failureOf(error).metadata["rewound"] === "true") conversation.rewound();
        throw error;
      } finally {
        conversation.restore();
      }
    }, true);
    // If only the answer was lost, the server was asked since, and what it cut is gone.
    return failure && !(failure.retryable && said.id && !conversation.find(said.id)) ? failure : said;
  }

  /** Undo the last rewind. Return why it was not done. */
  async undo(): Promise<Failure | null> {
    const key = newId();
    const failure = await this.#steering(() => this.persist(() => this.api.undo(this.id, key)));
    return failure?.retryable && !this.told.canUndo ? null : failure;
  }

  /** Do one act after the other. */
  #after<Value>(act: () => Promise<Value>): Promise<Value> {
    const done = this.#acts.then(act, act);
    this.#acts = done.catch(() => undefined);
    return done;
  }

  /** Change the history, one change at a time, and read the session again, behind it if `shown`. Return why it was not done. */
  async #steering(act: () => Promise<unknown>, shown = false): Promise<Failure | null> {
    if (this.told.rewinding) return new Failed("REWIND_IN_FLIGHT", "Another rewind of this conversation is under way.").failure;
    this.set({ rewinding: true });
    const failure = await this.#after(act).then(() => null, failureOf);
    this.epoch++;
    this.altered();
    const read = this.load().then(() => this.steer());
    if (failure || !shown) await read;
    this.set({ rewinding: false });
    this.steer();
    return failure;
  }

  /** Make a call of A2A, and record it; a failure too. Agents get a credential, and no conversation, log or export has it. */
  async #call(method: string, params: Json, about: Partial<WireRecord>, request: Request = {}, secret = ""): Promise<unknown> {
    const given = (credential: string): Json => (credential ? { ...params, metadata: { credential } } : params);
    this.records.add("sent", "request", { method, params: given(secret && "***") }, about);
    return this.api.call(this.agentOf(about.taskId ?? ""), method, given(secret), request).catch((error: unknown) => {
      this.records.add("received", "error", failureOf(error), about);
      throw error;
    });
  }

  /** Send a message with one effect however often it is repeated under one key; `version`: that the session must have. */
  async #sendMessage(message: Json, key: string, version = 0, secret = ""): Promise<Event> {
    const params = { message, configuration: { returnImmediately: true } };
    const headers = { "Idempotency-Key": key, ...(version && { "If-Match": `"${version}"` }) };
    const request = { headers, timeout: SEND_TIMEOUT };
    const result = await this.#call("SendMessage", params, { messageId: text(message, "messageId") }, request, secret);
    const event = classify(result);
    this.records.add("received", "response", result, { taskId: event.taskId, messageId: event.messageId, unknown: unknownIn(event) });
    return event;
  }

  async #deliver(id: string): Promise<Failure | null> {
    const { signal } = this.closed;
    for (;;) {
      while (!this.online && !signal.aborted && this.#unsent(id)) await sleep(100, signal);
      const out = this.#unsent(id);
      if (this.conversation.find(id)?.sending === null) return null;
      if (!out || !this.online) return new Failed("GONE", "This message was removed.").failure;
      this.#mark(id, "sending");
      const saw = this.#signature();
      const failure = await this.#post(out).then(() => null, failureOf);
      out.repeats = true;
      if (failure) await this.settled;
      if (failure?.retryable && this.told.status === "new") void this.#seek();
      if (!failure || this.conversation.find(id)?.sending === null) return null;
      if (!this.online && failure.status === 0) this.#mark(id, "queued");
      else if (!(await this.#resolved(out, failure, saw))) return failure;
    }
  }

  /** The server may have the first message of a session though no answer came: look whether the session has come to be. */
  async #seek(): Promise<void> {
    const { api, id, closed } = this;
    while (this.told.status === "new" && !closed.signal.aborted) {
      const newest = await api.sessions({ q: "", page_token: "", limit: "20" }).catch(failureOf);
      if ("rows" in newest && newest.rows.some((row) => row.id === id)) this.set({ status: "ready" });
      if ("rows" in newest || !newest.retryable) return this.refresh();
      await sleep(SEEK, closed.signal);
    }
  }

  async #post(out: Outgoing): Promise<void> {
    const { api, id: contextId, conversation, running, told } = this;
    const guarded = out.message === null && !out.behind && running === null;
    const message = (out.message ??= messageOf(out.id, out.draft, contextId, this.#goesTo()));
    const event = await this.#sendMessage(message, out.key, guarded ? told.version : 0, out.draft.secret);
    const gone = out.repeats && event.kind === "task" && (await api.taskInfos(contextId)).every(({ id }) => id !== event.taskId);
    if (gone) throw new Failed("REWOUND", "This message was rewound by another client.", { suggestion: "Send it again as a new one." });
    conversation.mark(out.id, null);
    this.answered(event, out.id);
    this.steer();
  }

  /** Handle the refusal of a message; return whether it is to be sent once more, if all is as the user `saw` it. */
  async #resolved(out: Outgoing, failure: Failure, saw: string): Promise<boolean> {
    const named = text(out.message ?? {}, "taskId");
    const stale = failure.code === "VERSION_MISMATCH";
    const ended = failure.metadata["rpc"] === "-32004" && named !== "";
    if (stale || ended) await this.load();
    const goesOn = ended && this.#goesTo()["taskId"] !== named && this.conversation.tasks.find(named) !== null;
    const again = !this.#unsent(out.id) || (stale ? saw === this.#signature() : goesOn);
    // A refusal for the version has stored nothing under the key.
    if (again) Object.assign(out, { message: null, ...(ended && { key: newId() }) });
    else if (stale || failure.code === "REWOUND") {
      this.conversation.unsay(out.id);
      this.set({ notice: failure });
    } else {
      if (!failure.retryable) out.message = null;
      this.#mark(out.id, "failed", failure);
    }
    this.show();
    return again;
  }

  /** Return what of the session matters to somebody who writes. */
  #signature(): string {
    const { conversation } = this;
    const messages = conversation.messages.filter(({ sending }) => !sending);
    return JSON.stringify([conversation.taskList.map((task) => task.id), messages.length, messages.at(-1)?.id]);
  }

  #goesTo(): Json {
    const { replyTo } = this.told;
    return replyTo ? { referenceTaskIds: [replyTo] } : this.conversation.nextMessage();
  }

  /** Return what is to be sent of a message; undefined if the server has it, or it is not shown any more. */
  #unsent(id: string): Outgoing | undefined {
    return this.conversation.find(id)?.sending ? this.#outgoing.get(id) : undefined;
  }

  #mark(id: string, state: "sending" | "queued" | "failed", failure: Failure | null = null): void {
    this.conversation.mark(id, { state, failure });
    this.changed();
  }
}
