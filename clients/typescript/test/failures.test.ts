/** What is repeated and what is not, against servers that answer in ways a proxy or a gateway does. */

import assert from "node:assert/strict";
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { after, describe, it } from "node:test";
import { AgentCard, SendMessageRequest } from "@a2a-js/sdk";
import { type Client, ClientFactory, JsonRpcTransportFactory, RestTransportFactory } from "@a2a-js/sdk/client";
import { TaskNotFoundError } from "@a2a-js/sdk/errors";
import { Failure, type Options, send, Sessions, steadyFetch, stream, Unauthorized, Unreachable } from "../src/index.ts";

const request = SendMessageRequest.fromJSON({ message: { messageId: "m", role: "ROLE_USER", parts: [{ text: "hi" }] } });
const task = { id: "t", contextId: "c", status: { state: "TASK_STATE_COMPLETED" } };
const closing: (() => void)[] = [];
after(() => closing.forEach((close) => close()));

type Binding = "JSONRPC" | "HTTP+JSON";

/** Start a server, and return its address. */
async function serve(answer: RequestListener): Promise<string> {
  const server = createServer(answer).listen(0, "127.0.0.1");
  await new Promise((listening) => server.once("listening", listening));
  closing.push(() => void server.close().closeAllConnections());
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** Return the official client of a server. */
function official(url: string, binding: Binding = "JSONRPC", fetchImpl = steadyFetch()): Promise<Client> {
  const supportedInterfaces = [{ url, protocolBinding: binding, protocolVersion: "1.0" }];
  const card = AgentCard.fromJSON({ name: "a", capabilities: { streaming: true }, supportedInterfaces });
  const transports = [new JsonRpcTransportFactory({ fetchImpl }), new RestTransportFactory({ fetchImpl })];
  return new ClientFactory({ transports }).createFromAgentCard(card);
}

/** Return the failure of a stream, and the milliseconds of the attempts of it. */
async function attempts(answer: RequestListener, binding: Binding = "JSONRPC", options: Options = {}) {
  const times: number[] = [];
  const url = await serve((asked, reply) => {
    times.push(performance.now());
    answer(asked, reply);
  });
  const failure: unknown = await (async () => {
    for await (const _ of stream(await official(url, binding), request, { giveUpAfter: 0.4, ...options }));
  })().catch((error: unknown) => error);
  return { failure, times };
}

const said = (status: number, body: string, headers: Record<string, string> = {}): RequestListener => (asked, reply) => {
  asked.resume();
  reply.writeHead(status, { "Content-Type": body.startsWith("{") ? "application/json" : "text/html", ...headers }).end(body);
};

describe("a refusal", () => {
  for (const binding of ["JSONRPC", "HTTP+JSON"] as const) {
    for (const [status, body] of [[401, '{"error":"no key","code":"NO_CREDENTIALS"}'], [403, "<p>no"], [404, "<p>no"]] as const) {
      it(`${status} over ${binding} is not repeated`, async () => {
        const { failure, times } = await attempts(said(status, body), binding);
        assert.ok(failure instanceof Error && !(failure instanceof Unreachable), String(failure));
        assert.equal(times.length, 1);
      });
    }
  }

  it("has the reason and the status of the server", async () => {
    const { failure } = await attempts(said(401, '{"error":"no key","code":"NO_CREDENTIALS","suggestion":"Send one."}'));
    assert.ok(failure instanceof Unauthorized);
    assert.deepEqual([failure.reason, failure.status, failure.message, failure.suggestion], ["NO_CREDENTIALS", 401, "no key", "Send one."]);
  });

  it("of A2A is the error of the official client", async () => {
    const error = { code: -32001, message: "no such task" };
    const { failure, times } = await attempts((asked, reply) => {
      let body = "";
      asked.on("data", (piece) => (body += piece)).on("end", () => {
        reply.setHeader("Content-Type", "application/json").end(JSON.stringify({ jsonrpc: "2.0", id: JSON.parse(body).id, error }));
      });
    });
    assert.ok(failure instanceof TaskNotFoundError);
    assert.equal(times.length, 1);
  });
});

describe("a server that cannot work now", () => {
  for (const binding of ["JSONRPC", "HTTP+JSON"] as const) {
    for (const status of [429, 500, 502, 503, 504]) {
      it(`${status} over ${binding} is asked again`, async () => {
        const { failure, times } = await attempts(said(status, "<p>later"), binding);
        assert.ok(failure instanceof Unreachable, String(failure));
        assert.ok(times.length > 1);
      });
    }
  }

  it("that closes the connection is asked again, also with the plain fetch", async () => {
    let asked = 0;
    const url = await serve((request) => (asked++, request.socket.destroy()));
    for (const client of [await official(url), await official(url, "JSONRPC", fetch)]) {
      asked = 0;
      await assert.rejects(send(client, request, { giveUpAfter: 0.4 }), Unreachable);
      assert.ok(asked > 1);
    }
  });

  it("is asked after pauses that grow, differ and end", async () => {
    const { failure, times } = await attempts(said(503, "<p>later"), "HTTP+JSON", { giveUpAfter: 2.5 });
    const pauses = times.slice(1).map((time, index) => time - (times[index] ?? 0));
    assert.ok(failure instanceof Unreachable);
    assert.ok((times.at(-1) ?? 0) - (times[0] ?? 0) < 2_600, String(pauses));
    assert.ok(pauses.length >= 5, String(pauses));
    pauses.forEach((pause, index) => assert.ok(pause >= 0.5 * Math.min(50 * 2 ** index, 1_000) - 2, String(pauses)));
    const { times: others } = await attempts(said(503, "<p>later"), "HTTP+JSON", { giveUpAfter: 0.4 });
    assert.notEqual(Math.round((others[1] ?? 0) - (others[0] ?? 0)), pauses[0]);
  });

  it("is asked when it wants to be", async () => {
    const { times } = await attempts(said(503, "<p>later", { "Retry-After": "1" }), "HTTP+JSON", { giveUpAfter: 1.5 });
    assert.equal(times.length, 2);
    assert.ok((times[1] ?? 0) - (times[0] ?? 0) >= 999);
  });

  it("and was never reached is tried once", async () => {
    const server = createServer().listen(0, "127.0.0.1");
    await new Promise((listening) => server.once("listening", listening));
    const { port } = server.address() as AddressInfo;
    await new Promise((closed) => server.close(closed));
    const began = performance.now();
    const failure: unknown = await send(await official(`http://127.0.0.1:${port}`), request).catch((error: unknown) => error);
    assert.ok(failure instanceof Unreachable && failure.reason === "UNREACHABLE", String(failure));
    assert.ok(performance.now() - began < 5_000);
  });

  it("and says nothing in a stream is asked again", async () => {
    let asked = 0;
    const url = await serve((request, reply) => {
      request.resume();
      reply.writeHead(200, { "Content-Type": "text/event-stream" });
      if (asked++) reply.end(`data: ${JSON.stringify({ task })}\n\n`);
      else reply.write(": silence\n\n");
    });
    const found = [];
    for await (const event of stream(await official(url, "HTTP+JSON", steadyFetch(fetch, 0.2)), request)) found.push(event);
    assert.deepEqual([asked, found.length], [2, 1]);
  });
});

describe("an abort", () => {
  it("ends a pause at once, and leaves no timer", async () => {
    const ends = new AbortController();
    const url = await serve(said(503, "<p>later", { "Retry-After": "50" }));
    const reached = new Promise<void>((resolve) => setTimeout(resolve, 200));
    const sent = send(await official(url, "HTTP+JSON"), request, { signal: ends.signal });
    await reached;
    const began = performance.now();
    ends.abort(new Error("enough"));
    await assert.rejects(sent, /enough/);
    assert.ok(performance.now() - began < 200);
    assert.deepEqual(process.getActiveResourcesInfo().filter((one) => one === "Timeout"), []);
  });

  it("before the call sends nothing", async () => {
    let asked = 0;
    const url = await serve(() => asked++);
    await assert.rejects(send(await official(url), request, { signal: AbortSignal.abort(new Error("enough")) }), /enough/);
    assert.equal(asked, 0);
  });
});

describe("an argument that cannot be used", () => {
  for (const key of ["", " a", "é", "a\nb", "x".repeat(256)]) {
    it(`such as the key ${JSON.stringify(key).slice(0, 20)} is refused before anything is sent`, async () => {
      let asked = 0;
      const client = await official(await serve(() => asked++));
      await assert.rejects(send(client, request, { key }), { name: "BadUsage", reason: "BAD_HEADER" });
      assert.equal(asked, 0);
    });
  }
});

describe("sessions", () => {
  it("fail with the class, reason and status of the answer", async () => {
    const answers = [
      [401, "Unauthorized"],
      [404, "Missing"],
      [409, "Declined"],
      [503, "Unreachable"],
    ] as const;
    for (const [status, name] of answers) {
      const url = await serve(said(status, '{"error":"no","code":"WHY"}'));
      const failure: unknown = await new Sessions({ url }).get("s").catch((error: unknown) => error);
      assert.ok(failure instanceof Failure);
      assert.deepEqual([failure.name, failure.reason, failure.status], [name, "WHY", status]);
    }
    const url = await serve(said(200, "<p>sign in"));
    await assert.rejects(new Sessions({ url }).find(), { name: "NotUnderstood" });
  });

  it("are not watched where another program answers", async () => {
    const event = said(200, 'event: snapshot\ndata: {"version":1}\n\nevent: entry-added\ndata: {"ent\n\n', { "Content-Type": "text/event-stream" });
    for (const [answer, events] of [[said(200, "<p>sign in"), 0], [event, 1]] as const) {
      let asked = 0;
      const url = await serve((request, reply) => (asked++, answer(request, reply)));
      const seen: string[] = [];
      const watched = (async () => {
        for await (const { name } of new Sessions({ url, giveUpAfter: 0.4 }).watch("s")) seen.push(name);
      })();
      await assert.rejects(watched, { name: "NotUnderstood", reason: "NOT_TASKPLANE", status: 200 });
      assert.deepEqual([asked, seen.length], [1, events]);
    }
  });
});
