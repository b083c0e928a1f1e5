/** A stream whose connections break: nothing is lost, nothing comes twice, and nothing is sent again. */

import { describe, expect, it } from "vitest";
import { Http } from "../src/model/http";
import { eachWithGateway, eventually, idle, lines, said, until } from "./opened";

const place = eachWithGateway();

describe("a task's stream", () => {
  it("is resumed after its last event, each piece once (scenario 11)", async () => {
    const session = await place.open();
    await session.send(said("hold"));
    const words = Array.from({ length: 12 }, (_, index) => `${index} `);
    for (const [index, word] of words.entries()) {
      place.gateway.tell("t1", "working", word, { partial: true, id: "m" });
      if (index % 3 !== 2) continue;
      await until(session, (view) => lines(view).includes(`agent: ${words.slice(0, index + 1).join("")} (live)`));
      place.gateway.breakStreams();
    }
    place.gateway.tell("t1", "completed", words.join(""), { id: "m" });
    expect(lines(await idle(session))).toEqual(["user: hold", `agent: ${words.join("")}`]);
    expect(place.gateway.calls("SendMessage")).toHaveLength(1);
    const resumed = place.gateway.calls("SubscribeToTask").map(({ headers }) => headers["last-event-id"]);
    expect(resumed).toEqual(["log-1", "log-4", "log-7", "log-10", "log-13"]);
  });

  it("tells that the connection is lost, until it is back", async () => {
    const session = await place.open();
    await session.send(said("hold"));
    await until(session, (view) => view.connection === "live");
    await place.gateway.stop();
    await until(session, (view) => view.connection === "lost");
    await place.gateway.start();
    await until(session, (view) => view.connection === "live");
  });

  it("reads a session again for many changes of another client only a few times", async () => {
    const session = await place.open();
    await session.send(said("hello"));
    await idle(session);
    const reads = () => place.gateway.seen.filter(({ path }) => path.includes("/messages")).length;
    const before = reads();
    for (let count = 0; count < 50; count++) place.gateway.change();
    await until(session, (view) => view.version === place.gateway.version);
    expect(reads() - before).toBeLessThan(5);
  });

  it("takes the whole task if its place is not known any more (scenario 13)", async () => {
    const session = await place.open();
    await session.send(said("hold"));
    place.gateway.tell("t1", "working", "one ", { partial: true, id: "m" });
    await until(session, (view) => lines(view).length === 2);
    place.gateway.incarnation = "restored";
    place.gateway.breakStreams();
    place.gateway.tell("t1", "working", "two ", { partial: true, id: "m" });
    await until(session, (view) => lines(view).includes("agent: one two  (live)"));
    place.gateway.tell("t1", "working", "three", { partial: true, id: "m" });
    const view = await until(session, (now) => lines(now).some((line) => line.includes("three")));
    expect(lines(view)).toEqual(["user: hold", "agent: one two three (live)"]);
    expect(session.records.list.some(({ body }) => JSON.stringify(body).includes("taskplane.dev/resync"))).toBe(true);
  });

  it("gets the first half of a text when it is joined in the middle (scenario 7)", async () => {
    const session = await place.open();
    await session.send(said("hold"));
    for (const word of ["one ", "two "]) place.gateway.tell("t1", "working", word, { partial: true, id: "m" });
    const other = await place.open({ id: session.view.value.id });
    await until(other, (view) => lines(view).includes("agent: one two  (live)"));
    place.gateway.tell("t1", "working", "three", { partial: true, id: "m" });
    expect(lines(await until(other, (view) => lines(view).includes("agent: one two three (live)")))).toHaveLength(2);
  });
});

describe("a connection", () => {
  it("that is refused never replaces what was loaded, and waits as long as the server asks", async () => {
    const session = await place.open();
    await session.send(said("hello")).then(() => idle(session));
    const asked: number[] = [];
    const busy = { error: "busy", code: "BUSY", retryable: true, retryAfter: 0.05 };
    place.gateway.fault = ({ path }) => {
      if (!path.endsWith("/watch")) return undefined;
      asked.push(performance.now());
      return asked.length === 1 ? { status: 429, body: busy } : { status: 400, body: { error: "gone", code: "GONE" } };
    };
    place.gateway.breakStreams();
    const shown = ["user: hello", "agent: echo hello"];
    await eventually(() => asked.length > 2);
    expect([session.view.value.status, session.view.value.failure, lines(session.view.value)]).toEqual(["ready", null, shown]);
    expect((asked[1] ?? 0) - (asked[0] ?? 0)).toBeGreaterThan(45);
    place.gateway.fault = () => undefined;
    expect(lines(await until(session, (now) => now.connection === "live"))).toEqual(shown);
  });

  it("of a task that is refused leaves its session as it is read, and follows that", async () => {
    const session = await place.open();
    const missing = { error: { code: -32601, message: "there is no agent kagent__NS__gone" } };
    place.gateway.fault = ({ rpc }) => (rpc === "SubscribeToTask" ? missing : undefined);
    await session.send(said("hold"));
    await eventually(() => place.gateway.calls("SubscribeToTask").length > 1);
    expect([session.view.value.status, lines(session.view.value)]).toEqual(["ready", ["user: hold"]]);
    place.gateway.tell("t1", "completed", "done");
    expect(lines(await until(session, ({ running }) => running === null))).toEqual(["user: hold", "agent: done"]);
  });

  it("ends when the session is gone", async () => {
    const session = await place.open();
    await session.send(said("hello")).then(() => idle(session));
    place.gateway.fault = ({ path }) => (path.includes("/sessions/") ? { status: 404, body: { error: "gone", code: "GONE" } } : undefined);
    place.gateway.breakStreams();
    expect((await until(session, ({ status }) => status === "missing")).failure?.code).toBe("GONE");
  });

  it("gives a connection up that says nothing, not even that it is alive", async () => {
    const http = new Http(place.api.root, () => "");
    place.gateway.fault = () => "hang";
    const silent = async (): Promise<void> => {
      for await (const _ of http.stream("silent", {}, 40)) expect.unreachable();
    };
    await expect(silent()).rejects.toMatchObject({ failure: { code: "TIMED_OUT", retryable: true } });
    await eventually(() => place.gateway.streams === 0);
  });

  it("keeps a quiet connection whose server says that it is alive", async () => {
    const session = await place.open();
    await session.send(said("hold"));
    const http = new Http(place.api.root, () => "");
    const seen: string[] = [];
    const read = (async () => {
      for await (const { event } of http.stream(`api/sessions/${session.view.value.id}/watch`, {}, 200)) if (seen.push(event ?? "") === 2) return;
    })();
    await new Promise((resolve) => setTimeout(resolve, 400));
    place.gateway.tell("t1", "completed");
    await read;
    expect(seen).toEqual(["snapshot", "task-state-changed"]);
  });
});
