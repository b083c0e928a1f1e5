// One run: an agent at work on one task under one lease.
import { setTimeout as sleep } from 'node:timers/promises';
import { invocationOf, messageOf, Speaker, status, textOf } from './messages.mjs';
import { isNotFound, isPassing } from './plane.mjs';

const LEASE_GONE = ['FENCED', 'TERMINAL', 'NOT_FOUND', 'TASK_NOT_FOUND'];
const USERS = ['EVENT_KIND_CREATED', 'EVENT_KIND_MESSAGE'];
const WORKING = 'TASK_STATE_WORKING';

/** The lease is gone: nothing more of this run will be stored. */
class Stopped extends Error {}

export class Run {
  constructor(plane, agent, { record, fence }) {
    Object.assign(this, { plane, agent, record, fence, uid: record.task_uid ?? record.uid });
    this.owner = { tenant: record.tenant, owner: record.owner };
    this.copied = BigInt(record.copied_generation);
    this.consumed = BigInt(record.consumed_generation); // the newest message of the user that was answered
    this.read = this.consumed; // the newest one that was read from the log
    this.inputs = [];
    this.number = 0;
    this.until = 0; // the time up to which the lease is certain; not before the first renewal
    this.stopping = new AbortController();
  }

  get lease() {
    return { task_uid: this.uid, fence: this.fence };
  }

  /** Nothing is stored any more, and the agent is told. */
  stop() {
    this.stopping.abort();
  }

  /** A renewal, sent at `sent`, said that the lease is ours for `ttl` seconds from then. */
  renewed(sent, ttl) {
    this.until = sent + ttl * 800; // a fifth is left for clocks that differ
  }

  /** Runs the agent to the end or pause of the task; returns whether it got there. */
  async work() {
    try {
      // Before anything has an effect: a task that is lost before this is given to another worker silently.
      await this.append([status(WORKING)]);
      for (;;) {
        if (!this.inputs.length) await this.readInputs();
        const input = this.inputs.shift();
        this.consumed = BigInt(input.generation);
        if (await this.turn(input)) return true;
      }
    } catch (error) {
      if (error instanceof Stopped || this.stopping.signal.aborted) return false;
      console.error(JSON.stringify({ level: 'ERROR', task_id: this.record.id, message: String(error.stack ?? error) }));
      const speaker = new Speaker(this.record, this.record.invocation_id, this.fence);
      return this.fail(speaker, 'The agent failed.').catch(() => false);
    } finally {
      this.stop();
    }
  }

  /** Answers one message; returns whether the task has ended or waits for its user. */
  async turn(input) {
    const speaker = new Speaker(this.record, input.invocation_id, this.fence);
    const message = messageOf(input);
    const turn = {
      text: textOf(message),
      message,
      taskId: this.record.id,
      contextId: this.record.context_id,
      attempt: this.record.attempt,
      fence: this.fence,
      first: input.kind === 'EVENT_KIND_CREATED',
      signal: this.stopping.signal,
      history: () => this.history(input),
    };
    let end = {};
    for await (const change of this.agent.run(turn)) {
      if (this.stopping.signal.aborted) throw new Stopped();
      if (change.text !== undefined) await this.append([speaker.piece(change.text)]);
      else if (change.artifact) await this.append([{ artifact: change.artifact }]);
      else {
        end = change; // { complete }, { ask } or { fail }
        break;
      }
    }
    if (end.fail !== undefined) return this.fail(speaker, end.fail);
    const said = end.ask ?? end.complete ?? speaker.open?.text;
    const last = said === undefined ? undefined : speaker.message(said);
    // The last message is an event, then in the session, then repeated by the end: who sees the end can read all of it.
    if (last) await this.append([status(WORKING, last)]);
    await this.copy();
    const state = end.ask === undefined ? 'TASK_STATE_COMPLETED' : 'TASK_STATE_INPUT_REQUIRED';
    return this.append([status(state, last)], { consumed_generation: `${this.consumed}`, copied_generation: `${this.copied}` });
  }

  async fail(speaker, reason) {
    const message = speaker.message(reason, { reason: 'AGENT_FAILED' });
    await this.append([status('TASK_STATE_FAILED', message, 'AGENT_FAILED')]);
    await this.copy();
    await this.plane.call(this.plane.store, 'MarkCopied', { task_uid: this.uid, generation: `${this.copied}` }, { owner: this.owner });
    return true;
  }

  /** Appends changes as one item; false: the user said something that must be answered before this end. */
  async append(changes, more = {}) {
    const item = { ...this.lease, number: `${++this.number}`, changes, ...more };
    for (;;) {
      await this.certain();
      try {
        const reply = await this.plane.call(this.plane.store, 'AppendEvents', { items: [item] }, { timeout: 5 });
        const result = reply.results[0];
        if (!result.refusal) return true;
        if (result.refusal.reason === 'PENDING_INPUT') return false;
        if (LEASE_GONE.includes(result.refusal.reason)) throw new Stopped();
        throw new Error(`${result.refusal.reason}: ${result.refusal.message}`);
      } catch (error) {
        // Whether it was stored is not known: the same item under the same number is stored once.
        if (!isPassing(error)) throw error;
        await sleep(100 + 400 * Math.random());
      }
    }
  }

  /** Stands still while the lease is not certain: another worker may have the task. */
  async certain() {
    while (performance.now() > this.until) {
      if (this.stopping.signal.aborted) throw new Stopped();
      await sleep(20);
    }
    if (this.stopping.signal.aborted) throw new Stopped();
  }

  /** Reads the messages of the user that were not read yet. */
  async readInputs() {
    const found = await this.events({ kinds: USERS, after_generation: `${this.read}` });
    for (const event of found) this.read = BigInt(event.generation);
    this.inputs.push(...found);
    if (!this.inputs.length) throw new Error('the task has no message to answer');
  }

  /** Copies every message after `copied` to the session, in one call and in their order. Copying twice changes nothing. */
  async copy() {
    const found = await this.events({ speaking: true, after_generation: `${this.copied}` });
    if (!found.length) return;
    let turn = this.record.invocation_id;
    const entries = found.map((event) => {
      const message = messageOf(event);
      const fromUser = USERS.includes(event.kind);
      if (fromUser) turn = event.invocation_id;
      return {
        id: fromUser ? event.invocation_id : `${this.uid}-${event.generation}`,
        kind: 'ENTRY_KIND_MESSAGE',
        invocation_id: fromUser ? turn : (invocationOf(message) ?? turn),
        task_id: this.record.id,
        task_invocation_id: this.record.invocation_id,
        generation: event.generation,
        actor: event.actor,
        message,
      };
    });
    const request = { context_id: this.record.context_id, entries };
    // A session of which nothing was stored yet begins with the first message of its task.
    if (found[0].generation === '1') request.create = { agent: this.record.agent, title: textOf(entries[0].message).slice(0, 60) };
    try {
      await this.repeated(() => this.plane.call(this.plane.sessions, 'AppendEntries', request, { owner: this.owner }));
    } catch (error) {
      if (!isNotFound(error)) throw error; // otherwise the session was deleted, and nothing is missing
    }
    this.copied = BigInt(found.at(-1).generation);
  }

  /** What the session shows without the messages that are still to be answered, oldest first. */
  async history(input) {
    const unanswered = new Set([input, ...this.inputs].map((each) => each.invocation_id));
    const request = { context_id: this.record.context_id, effective: true };
    const shown = [];
    do {
      const page = await this.repeated(() => this.plane.call(this.plane.sessions, 'ListEntries', request, { owner: this.owner }));
      shown.push(...page.entries);
      request.page_token = page.next_page_token;
    } while (request.page_token);
    return shown.filter((entry) => entry.payload === 'message' && !unanswered.has(entry.invocation_id)).map((entry) => entry.message);
  }

  async events(wanted) {
    const found = [];
    for (;;) {
      const after = found.at(-1)?.generation ?? wanted.after_generation;
      const request = { ...wanted, task_id: this.record.id, after_generation: after, limit: 1000 };
      const { events } = await this.repeated(() => this.plane.call(this.plane.store, 'ListEvents', request, { owner: this.owner }));
      found.push(...events);
      if (events.length === 0) return found;
    }
  }

  /** Makes a call that may be repeated, as long as the lease is ours. */
  async repeated(call) {
    for (;;) {
      if (this.stopping.signal.aborted) throw new Stopped();
      try {
        return await call();
      } catch (error) {
        if (!isPassing(error)) throw error;
        await sleep(100 + 400 * Math.random());
      }
    }
  }
}
