// The official client in JavaScript. For each line of the input, a text, it streams the answer of the agent at the URL,
// in the version, and prints the messages and the pieces of artifacts that it was given, as JSON.

import { createInterface } from "node:readline";
import { ClientFactory, DefaultAgentCardResolver, JsonRpcTransportFactory } from "@a2a-js/sdk/client";

const [url, version, extension] = process.argv.slice(2);
const compat = { legacyCompat: { enabled: true } };
const fetchImpl = (address, options) => {
  const headers = new Headers(options?.headers);
  headers.set("A2A-Extensions", extension);
  // The card that is asked for in 1.0 names no interface of 0.3.
  if (version !== "1.0") headers.delete("A2A-Version");
  return fetch(address, { ...options, headers });
};
const card = await new DefaultAgentCardResolver({ ...compat, fetchImpl }).resolve(url);
card.supportedInterfaces = card.supportedInterfaces.filter((one) => one.protocolVersion.startsWith(version));
const factory = new ClientFactory({ transports: [new JsonRpcTransportFactory({ ...compat, fetchImpl })] });
const client = await factory.createFromAgentCard(card);

const textOf = (parts) => parts.map((part) => (part.content?.$case === "text" ? part.content.value : "")).join("");

for await (const line of createInterface({ input: process.stdin })) {
  const message = {
    messageId: crypto.randomUUID(),
    contextId: "",
    taskId: "",
    role: 1,
    parts: [{ content: { $case: "text", value: line }, metadata: undefined, filename: "", mediaType: "" }],
    metadata: undefined,
    extensions: [],
    referenceTaskIds: [],
  };
  const found = [];
  for await (const { payload } of client.sendMessageStream({ tenant: "", message, configuration: undefined, metadata: undefined })) {
    const { $case, value } = payload;
    if ($case === "artifactUpdate") {
      const { artifactId, parts } = value.artifact;
      found.push({ artifact: artifactId, text: textOf(parts), metadata: value.artifact.metadata ?? {} });
    } else if ($case === "statusUpdate" && value.status?.message) {
      const { messageId, parts, metadata } = value.status.message;
      found.push({ message: messageId, text: textOf(parts), metadata: metadata ?? {} });
    }
  }
  process.stdout.write(`${JSON.stringify(found)}\n`);
}
