/** What a page in a browser does with the official client and this package; a test bundles it and calls `run` there. */

import { SendMessageRequest, StreamResponse } from "@a2a-js/sdk";
import { ClientFactory, DefaultAgentCardResolver, JsonRpcTransportFactory } from "@a2a-js/sdk/client";
import { Sessions, steadyFetch, stream } from "../src/index.ts";

/** Stream the answer to a message of A2A 1.0, and read its session and the first change of it. */
async function run(message: { contextId: string }) {
  const card = await new DefaultAgentCardResolver().resolve(location.origin);
  // The address of the gateway, and not that of what stands before it, is in the card.
  card.supportedInterfaces = card.supportedInterfaces
    .filter((one) => one.protocolVersion === "1.0" && one.protocolBinding === "JSONRPC")
    .map((one) => ({ ...one, url: `${location.origin}/` }));
  const client = await new ClientFactory({ transports: [new JsonRpcTransportFactory({ fetchImpl: steadyFetch() })] }).createFromAgentCard(card);
  const events: unknown[] = [];
  for await (const event of stream(client, SendMessageRequest.fromJSON({ message }))) events.push(StreamResponse.toJSON(event));
  const sessions = new Sessions({ url: location.origin });
  const { title } = await sessions.get(message.contextId);
  for await (const change of sessions.watch(message.contextId)) return { events, title, change: change.name };
  return { events, title, change: "" };
}

Object.assign(globalThis, { run });
