/**
 * The official client of A2A, unmodified, alone and with the functions of this package around it. It does one act after the
 * other, as they come in as lines of JSON. It prints each event or answer as a line, and then how the act has ended.
 */

import { createInterface } from "node:readline";
import { AgentCard, CancelTaskRequest, GetTaskRequest, ListTasksRequest, ListTasksResponse, Message } from "@a2a-js/sdk";
import { SendMessageRequest, StreamResponse, SubscribeToTaskRequest, Task } from "@a2a-js/sdk";
import { ClientFactory, DefaultAgentCardResolver, JsonRpcTransportFactory, RestTransportFactory } from "@a2a-js/sdk/client";
import { GrpcTransportFactory } from "@a2a-js/sdk/client/grpc";
import { toldBy } from "../src/calls.ts";
import { Failure, type Place, placeOf, resume, send, steadyFetch, stream } from "../src/index.ts";

interface Given {
  /** Where the card is. */
  url: string;
  version: "1.0" | "0.3";
  binding: "JSONRPC" | "HTTP+JSON" | "GRPC";
  /** Where the calls go, if not to the address in the card. */
  port?: number;
  /** Use the plain fetch. */
  plain?: boolean;
}

interface Act {
  act: keyof typeof acts;
  request?: unknown;
  place?: Place;
  /** Headers, as service parameters of the official client. */
  headers?: Record<string, string>;
  key?: string;
  giveUpAfter?: number;
}

const { url, port, version, binding, plain } = JSON.parse(process.argv[2] ?? "") as Given;
const say = (value: unknown): boolean => process.stdout.write(`${JSON.stringify(value)}\n`);

const compat = { legacyCompat: { enabled: true } };
// The card that is asked for in 1.0 names no interface of 0.3.
const unversioned: typeof fetch = (address, init) => {
  const headers = new Headers(init?.headers);
  headers.delete("A2A-Version");
  return fetch(address, { ...init, headers });
};
const card = await new DefaultAgentCardResolver({ ...compat, fetchImpl: unversioned }).resolve(url);
card.supportedInterfaces = card.supportedInterfaces
  .filter((one) => one.protocolVersion.startsWith(version) && one.protocolBinding === binding)
  .map((one) => ({ ...one, url: port ? `http://127.0.0.1:${port}` : one.url }))
  // The library of gRPC takes an address without a scheme.
  .map((one) => (binding === "GRPC" ? { ...one, url: one.url.replace(/^\w+:\/\//, "") } : one));
const transport = { ...compat, ...(!plain && { fetchImpl: steadyFetch() }) };
const transports = [new JsonRpcTransportFactory(transport), new RestTransportFactory(transport), new GrpcTransportFactory(compat)];
const client = await new ClientFactory({ transports }).createFromAgentCard(card);

const answered = (answer: Message | Task): unknown =>
  "messageId" in answer ? { message: Message.toJSON(answer) } : { task: Task.toJSON(answer) };

async function all(events: AsyncIterable<StreamResponse>): Promise<void> {
  for await (const event of events) say(StreamResponse.toJSON(event));
}

const acts = {
  card: async () => say(AgentCard.toJSON(await client.getAgentCard())),
  sendMessage: async ({ request, ...options }) => say(answered(await client.sendMessage(SendMessageRequest.fromJSON(request), options))),
  sendMessageStream: ({ request, ...options }) => all(client.sendMessageStream(SendMessageRequest.fromJSON(request), options)),
  getTask: async ({ request }) => say(Task.toJSON(await client.getTask(GetTaskRequest.fromJSON(request)))),
  listTasks: async ({ request }) => say(ListTasksResponse.toJSON(await client.listTasks(ListTasksRequest.fromJSON(request)))),
  cancelTask: async ({ request }) => {
    const { tenant, id } = CancelTaskRequest.fromJSON(request);
    say(Task.toJSON(await client.cancelTask({ tenant, id, metadata: undefined })));
  },
  resubscribeTask: ({ request, ...options }) => all(client.resubscribeTask(SubscribeToTaskRequest.fromJSON(request), options)),
  send: async ({ request, ...options }) => say(answered(await send(client, SendMessageRequest.fromJSON(request), options))),
  stream: ({ request, ...options }) => all(stream(client, SendMessageRequest.fromJSON(request), options)),
  resume: ({ place, ...options }) => all(resume(client, place ?? { taskId: "" }, options)),
  /** Send fifty times at once. */
  together: async ({ request, ...options }) => {
    const sent = SendMessageRequest.fromJSON(request);
    const begun = async (): Promise<string | undefined> => {
      for await (const event of stream(client, sent, options)) return placeOf(event)?.taskId;
      return undefined;
    };
    const done = async (): Promise<string> => {
      const answer = await send(client, sent, options);
      return "id" in answer ? answer.id : "";
    };
    say(await Promise.all(Array.from({ length: 50 }, (_, index) => (index % 2 ? begun() : done()))));
  },
  /** Abort while the next event is awaited, and tell what is still there. */
  abort: async ({ request }) => {
    const ends = new AbortController();
    let aborted = 0;
    const abort = (): void => {
      aborted = performance.now();
      ends.abort(new Error("enough"));
    };
    let events = 0;
    try {
      for await (const _ of stream(client, SendMessageRequest.fromJSON(request), { signal: ends.signal })) {
        if (!events++) setTimeout(abort, 20);
      }
    } catch (error) {
      const timers = process.getActiveResourcesInfo().filter((one) => one === "Timeout" || one === "Immediate");
      say({ reason: String(error), milliseconds: performance.now() - aborted, timers });
    }
  },
} satisfies Record<string, (given: Options) => Promise<unknown>>;

type Options = Pick<Act, "request" | "key" | "giveUpAfter"> & { place?: Place; serviceParameters?: Record<string, string> };

for await (const line of createInterface({ input: process.stdin })) {
  const { act, headers, giveUpAfter, ...given } = JSON.parse(line) as Act;
  try {
    await acts[act]({ ...given, ...(giveUpAfter && { giveUpAfter }), ...(headers && { serviceParameters: headers }) });
    say({ ended: act });
  } catch (error) {
    const { name, message } = error instanceof Failure ? error : (toldBy(error) ?? (error as Error));
    say({ failed: name, message, ...(error instanceof Failure && { reason: error.reason, status: error.status }) });
  }
}
