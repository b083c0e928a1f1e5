/**
 * Exact resume and keyed sends for the official client of A2A (`@a2a-js/sdk`), over each of its transports and versions.
 *
 * That client stays as it is: a cursor comes in the metadata of each event, and goes back as a parameter of the call.
 */

import { type SendMessageRequest, type SendMessageResult, type StreamResponse, type Task, TaskState } from "@a2a-js/sdk";
import type { Client, RequestOptions } from "@a2a-js/sdk/client";
import { UnsupportedOperationError } from "@a2a-js/sdk/errors";
import { Call, closed, toldBy } from "./calls.ts";
import { BadUsage } from "./failures.ts";
import { Pauses } from "./pauses.ts";

/** Options of a call: those of the official client, and these. */
export interface Options extends RequestOptions {
  /** Seconds without any success after which `Unreachable` is raised; 60 by default. */
  readonly giveUpAfter?: number;
}

/** Options of a send. `key`: its idempotency key, of 1 to 255 printable ASCII characters; a random one by default. */
export interface SendOptions extends Options {
  readonly key?: string;
}

/** A place in the log of a task: keep it with your results, and `resume` there. */
export interface Place {
  readonly taskId: string;
  /** Empty if the server has no cursors. */
  readonly cursor: string;
  /** The newest state that an event told; undefined if none did. */
  readonly state: TaskState | undefined;
}

const { TASK_STATE_COMPLETED, TASK_STATE_FAILED, TASK_STATE_CANCELED, TASK_STATE_REJECTED } = TaskState;
const TERMINAL = new Set([TASK_STATE_COMPLETED, TASK_STATE_FAILED, TASK_STATE_CANCELED, TASK_STATE_REJECTED]);
const ANSWERED = new Set([...TERMINAL, TaskState.TASK_STATE_INPUT_REQUIRED]);

/**
 * Send a message, and yield the events of its task until the task is terminal or waits for input. None is missing and none
 * comes twice, however often the connection breaks.
 *
 * A `task` in mid-stream replaces the events before it: the server could not continue after the last cursor. The answer to a
 * rewind is the session as a task, which has no cursor: a stream that breaks right after it yields it once more. Raise
 * `Unreachable`, `BadUsage`, or what the official client raises for a request that the server refuses.
 */
export async function* stream(client: Client, request: SendMessageRequest, options: SendOptions = {}): Events {
  const headers = { "Idempotency-Key": printable("The key", options.key ?? newKey()) };
  const begin = (call: RequestOptions): Events => client.sendMessageStream(request, call);
  yield* follow(client, { tenant: request.tenant, until: ANSWERED, headers, begin, rewinds: request }, options);
}

/**
 * Yield the events of a task after a place until the task is terminal, also if it has ended meanwhile. Without a cursor the
 * first event is the whole task as it is, and a terminal task is refused. A task that waits for input keeps its stream.
 */
export async function* resume(
  client: Client,
  { taskId, cursor = "", tenant = "" }: Pick<Place, "taskId"> & { readonly cursor?: string; readonly tenant?: string },
  options: Options = {},
): Events {
  const place = { taskId, cursor: cursor && printable("The cursor", cursor), state: undefined };
  yield* follow(client, { tenant, until: TERMINAL, place }, options);
}

/**
 * Send a message, wait until its task is terminal or waits for input, and return the task, or the direct answer. It is sent
 * again under its key until an answer comes: one task, however often.
 */
export async function send(client: Client, request: SendMessageRequest, options: SendOptions = {}): Promise<SendMessageResult> {
  const headers = { "Idempotency-Key": printable("The key", options.key ?? newKey()) };
  const pauses = new Pauses(options.giveUpAfter, options.signal);
  for (;;) {
    const call = new Call(options, headers);
    try {
      return await client.sendMessage(request, call.options);
    } catch (error) {
      await pauses.wait(call.lost(error));
    } finally {
      call.end();
    }
  }
}

/** Return the place after an event; undefined for a direct answer, and for a session after its rewind, which are no tasks. */
export function placeOf({ payload }: StreamResponse): Place | undefined {
  if (payload === undefined || payload.$case === "message") return undefined;
  const { value } = payload;
  const taskId = "taskId" in value ? value.taskId : value.id;
  if (!taskId || taskId === value.contextId) return undefined;
  return { taskId, cursor: cursorOf(value), state: "status" in value ? value.status?.state : undefined };
}

/** Return a random idempotency key. It works where `crypto.randomUUID` does not: in pages over plain HTTP. */
export function newKey(): string {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

type Events = AsyncGenerator<StreamResponse, void, undefined>;

interface Followed {
  readonly tenant: string;
  readonly until: ReadonlySet<TaskState>;
  readonly headers?: Readonly<Record<string, string>>;
  readonly begin?: (options: RequestOptions) => Events;
  readonly rewinds?: SendMessageRequest;
  readonly place?: Place;
}

async function* follow(client: Client, followed: Followed, options: Options): Events {
  const { tenant, until, begin, rewinds } = followed;
  const pauses = new Pauses(options.giveUpAfter, options.signal);
  let { place, headers = {} } = followed;
  let seen = false;
  for (;;) {
    if (place?.cursor) headers = { "Last-Event-ID": place.cursor };
    const call = new Call(options, headers);
    let lost = closed();
    let refused = false;
    try {
      try {
        const events = place ? client.resubscribeTask({ tenant, id: place.taskId }, call.options) : begin?.(call.options);
        for await (const event of events ?? []) {
          pauses.reset();
          seen = true;
          const next = placeOf(event);
          if (next) place = { ...next, cursor: next.cursor || (place?.cursor ?? ""), state: next.state ?? place?.state };
          yield event;
          if (next ? place?.state !== undefined && until.has(place.state) : isAll(event, rewinds)) return;
        }
      } catch (error) {
        // A server without cursors refuses the subscription of a task that has ended.
        refused = seen && place !== undefined && toldBy(error) instanceof UnsupportedOperationError;
        if (!refused) throw error;
      }
      if (place) {
        const task = await client.getTask({ tenant, id: place.taskId, historyLength: undefined }, call.options);
        const ended = task.status !== undefined && until.has(task.status.state);
        if (ended && place.cursor && cursorOf(task) === place.cursor) return;
        if (ended && (refused || !place.cursor)) {
          yield { payload: { $case: "task", value: task } };
          return;
        }
        // The events of a task that has ended come after the cursor; without them the time goes on.
        if (!ended) pauses.answered();
      }
    } catch (error) {
      lost = call.lost(error);
    } finally {
      pauses.lasted(call.lifetime);
      call.end();
    }
    await pauses.wait(lost);
  }
}

/** Return whether nothing follows an event that is not of a task: after a direct answer, and after a rewind without a turn. */
function isAll({ payload }: StreamResponse, request: SendMessageRequest | undefined): boolean {
  if (payload?.$case !== "task") return payload?.$case === "message";
  return !request?.message?.parts.length || payload.value.status?.state !== TASK_STATE_COMPLETED;
}

function cursorOf({ metadata }: Pick<Task, "metadata">): string {
  const cursor: unknown = metadata?.["taskplane.dev/cursor"];
  return typeof cursor === "string" ? cursor : "";
}

function printable(what: string, value: string): string {
  if (/^(?! )[ -~]{1,255}(?<! )$/.test(value)) return value;
  throw new BadUsage(`${what} must have 1 to 255 printable ASCII characters, without spaces at its ends.`, { reason: "BAD_HEADER" });
}
