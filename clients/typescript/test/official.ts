/**
 * The official client of A2A, unmodified, with the functions of this package around it. It does what its argument says, and
 * prints each event or answer as a line of JSON; a failure is the last line.
 */

import { SendMessageRequest, StreamResponse } from "@a2a-js/sdk";
import { ClientFactory, DefaultAgentCardResolver, JsonRpcTransportFactory, RestTransportFactory } from "@a2a-js/sdk/client";
import { Failure, placeOf, resume, send, steadyFetch, stream } from "../src/index.ts";

interface Given {
  /** Where the card is, and where the calls go. */
  url: string;
  port: number;
  version: "1.0" | "0.3";
  binding: "JSONRPC" | "HTTP+JSON";
  act: "stream" | "resume" | "together" | "abort";
  request?: unknown;
  place?: { taskId: string; cursor?: string };
  key?: string;
  giveUpAfter?: number;
  /** Use the plain fetch. */
  plain?: boolean;
}

const given = JSON.parse(process.argv[2] ?? "") as Given;
const { url, port, version, binding, act, place, key, giveUpAfter } = given;
const options = { ...(key && { key }), ...(giveUpAfter && { giveUpAfter }) };
const request = SendMessageRequest.fromJSON(given.request ?? {});
const say = (value: unknown): boolean => process.stdout.write(`${JSON.stringify(value)}\n`);

const compat = { legacyCompat: { enabled: true } };
// The card that is asked for in 1.0 names no interface of 0.3.
const older: typeof fetch = (address, init) => {
  const headers = new Headers(init?.headers);
  headers.delete("A2A-Version");
  return fetch(address, { ...init, headers });
};
const card = await new DefaultAgentCardResolver({ ...compat, ...(version === "0.3" && { fetchImpl: older }) }).resolve(url);
const offered = card.supportedInterfaces.filter((one) => one.protocolVersion.startsWith(version)).slice(0, 1);
card.supportedInterfaces = offered.map((one) => ({ ...one, url: `http://127.0.0.1:${port}`, protocolBinding: binding }));
const transport = { ...compat, ...(!given.plain && { fetchImpl: steadyFetch() }) };
const transports = [new JsonRpcTransportFactory(transport), new RestTransportFactory(transport)];
const client = await new ClientFactory({ transports }).createFromAgentCard(card);

const acts: Record<Given["act"], () => Promise<void>> = {
  async stream() {
    for await (const event of stream(client, request, options)) say(StreamResponse.toJSON(event));
  },
  async resume() {
    for await (const event of resume(client, place ?? { taskId: "" }, options)) say(StreamResponse.toJSON(event));
  },
  /** Fifty sends at the same time. */
  async together() {
    const first = async (): Promise<string | undefined> => {
      for await (const event of stream(client, request, options)) return placeOf(event)?.taskId;
      return undefined;
    };
    const answered = async (): Promise<string> => {
      const answer = await send(client, request, options);
      return "id" in answer ? answer.id : "";
    };
    const all = Array.from({ length: 50 }, (_, index) => (index % 2 ? first() : answered()));
    say(await Promise.all(all));
  },
  /** Abort while the next event is awaited, and tell what is still there. */
  async abort() {
    const ends = new AbortController();
    let aborted = 0;
    const abort = (): void => {
      aborted = performance.now();
      ends.abort(new Error("enough"));
    };
    let events = 0;
    try {
      for await (const _ of stream(client, request, { ...options, signal: ends.signal })) if (!events++) setTimeout(abort, 20);
    } catch (error) {
      const timers = process.getActiveResourcesInfo().filter((one) => one === "Timeout" || one === "Immediate");
      say({ reason: String(error), milliseconds: performance.now() - aborted, timers });
    }
  },
};

try {
  await acts[act]();
} catch (error) {
  const { name, message } = error as Error;
  say({ failed: name, message, ...(error instanceof Failure && { reason: error.reason, status: error.status }) });
}
