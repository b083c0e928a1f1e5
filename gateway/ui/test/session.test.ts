/** What the user asks for, and what the session shows whatever the server and the network do. */

import { describe, expect, it } from "vitest";
import { Stored } from "../src/model/stored";
import { eachWithGateway, eventually, idle, lines, said, until } from "./opened";

const place = eachWithGateway();

describe("sending", () => {
  it("begins a session with its first message and follows its task to the end", async () => {
    const session = await place.open();
    expect(session.view.value.status).toBe("new");
    const sent = await session.send(said("hello"));
    const view = await idle(session);
    expect([sent, view.id]).toEqual([null, place.gateway.accepted[0]?.["contextId"]]);
    expect(lines(view)).toEqual(["user: hello", "agent: echo hello"]);
    expect(view.tasks.map((task) => task.state)).toEqual(["completed"]);
  });

  it("marks a refused message as failed, and a retry has the same id and key (scenario 23)", async () => {
    const session = await place.open();
    place.gateway.fault = (request) => (request.rpc ? { status: 500, body: { error: "broken", code: "INTERNAL" } } : undefined);
    const sent = await session.send(said("hello"));
    expect(sent).toMatchObject({ code: "INTERNAL", message: "broken", status: 500 });
    expect(lines(session.view.value)).toEqual(["user: hello (failed)"]);
    place.gateway.fault = () => undefined;
    expect(await session.retry(session.view.value.rows[0]?.key ?? "")).toBeNull();
    await idle(session);
    const [first, second] = place.gateway.calls("SendMessage");
    expect(second?.body["params"]).toEqual(first?.body["params"]);
    expect(second?.headers["idempotency-key"]).toBe(first?.headers["idempotency-key"]);
  });

  it("has one effect though the answer was lost", async () => {
    const session = await place.open();
    place.gateway.fault = (request) => (request.rpc === "SendMessage" ? "lose" : undefined);
    expect(await session.send(said("hello"))).toMatchObject({ code: "UNREACHABLE" });
    place.gateway.fault = () => undefined;
    await session.send(said("hello"));
    expect(lines(await idle(session))).toEqual(["user: hello", "agent: echo hello"]);
    expect(place.gateway.tasks.size).toBe(1);
  });

  it("is no longer failed when the server turns out to have the message", async () => {
    const session = await place.open();
    await session.send(said("one"));
    await idle(session);
    place.gateway.fault = ({ rpc, method }) => (rpc === "SendMessage" ? "lose" : method === "GET" ? "break" : undefined);
    expect(await session.send(said("two"))).toMatchObject({ code: "UNREACHABLE" });
    expect(lines(session.view.value).at(-1)).toBe("user: two (failed)");
    place.gateway.fault = () => undefined;
    await until(session, ({ rows }) => rows.length === 4);
    expect(lines(await idle(session)).slice(2)).toEqual(["user: two", "agent: echo two"]);
    expect(await session.retry(place.gateway.accepted[1]?.["messageId"])).toBeNull();
    expect(place.gateway.calls("SendMessage")).toHaveLength(2);
  });

  it("is sent when the session shows the message, and the answer that is lost then is no failure", async () => {
    const session = await place.open();
    await session.send(said("one"));
    await idle(session);
    place.gateway.fault = ({ rpc }) => (rpc === "SendMessage" ? "mute" : undefined);
    const sent = session.send(said("two"));
    expect(lines(await until(session, (view) => lines(view).includes("agent: echo two"))).slice(2)).toEqual(["user: two", "agent: echo two"]);
    place.gateway.breakStreams();
    expect(await sent).toBeNull();
    expect(place.gateway.calls("SendMessage")).toHaveLength(2);
  });

  it.each(["lose", "break"] as const)("has one effect though the page was loaded again after the connection did %s", async (fault) => {
    const draft = { id: "m1", contextId: "c1", repeats: false };
    const first = await place.open();
    place.gateway.fault = ({ rpc }) => (rpc === "SendMessage" ? fault : undefined);
    expect(await first.send(said("hello"), draft)).toMatchObject({ code: "UNREACHABLE" });
    first.close();
    place.gateway.fault = () => undefined;
    const session = await place.open();
    expect(await session.send(said("hello"), { ...draft, repeats: true })).toBeNull();
    const view = await idle(session);
    expect([view.id, lines(view)]).toEqual(["c1", ["user: hello", "agent: echo hello"]]);
    expect(place.gateway.accepted).toHaveLength(1);
  });

  it.each([{}, { secret: "hunter2" }])("gives a message that failed back as a draft, and no credential", async (more) => {
    const session = await place.open();
    place.gateway.fault = (request) => (request.rpc ? { error: { code: -32029, message: "too many" } } : undefined);
    await session.send(said("hello", more));
    expect(session.discard(session.view.value.rows[0]?.key ?? "")).toEqual("secret" in more ? null : said("hello"));
    expect(lines(await until(session, (view) => !view.rows.length))).toEqual([]);
  });

  it("keeps messages while the browser is offline and sends each once (scenario 24)", async () => {
    const session = await place.open();
    await session.send(said("one"));
    await idle(session);
    place.gateway.fault = () => "break";
    session.setOnline(false);
    await until(session, ({ connection }) => connection === "offline");
    const sent = [session.send(said("two")), session.send(said("three"))];
    const view = await until(session, ({ rows }) => rows.length === 4);
    expect(view.connection).toBe("offline");
    expect(lines(view).slice(2)).toEqual(["user: two (queued)", "user: three (queued)"]);
    place.gateway.fault = () => undefined;
    session.setOnline(true);
    expect(await Promise.all(sent)).toEqual([null, null]);
    await idle(session);
    const texts = place.gateway.accepted.map((message) => message["parts"][0].text);
    expect(texts).toEqual(["one", "two", "three"]);
  });

  it("does not send what waits for the network when the session is left", async () => {
    const session = await place.open();
    place.gateway.fault = () => "break";
    session.setOnline(false);
    await until(session, ({ connection }) => connection === "offline");
    const sent = session.send(said("one"));
    session.close();
    expect(await sent).toMatchObject({ code: "GONE" });
    expect(place.gateway.calls("SendMessage")).toEqual([]);
  });

  it("does not believe the browser that it is offline while the server answers, as one on this machine does", async () => {
    const session = await place.open();
    session.setOnline(false);
    expect(await session.send(said("hello"))).toBeNull();
    expect((await idle(session)).connection).toBe("live");
  });

  it("refuses to send into a session that was changed elsewhere, and shows the change (scenario 10)", async () => {
    const session = await place.open();
    await session.send(said("one"));
    await idle(session);
    session.setVisible(false);
    place.gateway.fault = (request) => (request.path.endsWith("/watch") || request.rpc === "SubscribeToTask" ? "break" : undefined);
    place.gateway.breakStreams();
    await until(session, (view) => view.connection === "lost");
    place.gateway.begin("of another");
    const sent = await session.send(said("two"));
    expect(sent).toMatchObject({ code: "VERSION_MISMATCH" });
    const view = await until(session, ({ rows }) => rows.length === 4);
    expect(lines(view)).toEqual(["user: one", "agent: echo one", "user: of another", "agent: echo of another"]);
    expect(view.notice?.code).toBe("VERSION_MISMATCH");
    expect(place.gateway.tasks.size).toBe(2);
  });

  it("refuses as well if the change is shown before the refusal comes", async () => {
    const session = await place.open();
    await session.send(said("one"));
    await idle(session);
    let faster = false;
    place.gateway.fault = ({ rpc }) => {
      if (rpc === "SendMessage" && !faster) {
        faster = true;
        place.gateway.begin("of another");
        return "later";
      }
      return undefined;
    };
    expect(await session.send(said("two"))).toMatchObject({ code: "VERSION_MISMATCH" });
    expect(place.gateway.tasks.size).toBe(2);
  });

  it("sends again by itself, under the same key, if only bookkeeping has changed the version", async () => {
    const session = await place.open();
    await session.send(said("one"));
    await idle(session);
    place.gateway.version++;
    expect(await session.send(said("two"))).toBeNull();
    expect(lines(await idle(session))).toEqual(["user: one", "agent: echo one", "user: two", "agent: echo two"]);
    const keys = place.gateway.calls("SendMessage").slice(-2).map(({ headers }) => headers["idempotency-key"]);
    expect(keys[0]).toBe(keys[1]);
  });

  it("shows a direct answer, which is no task", async () => {
    const session = await place.open();
    await session.send(said("one"));
    await idle(session);
    await session.send(said("message two"));
    const view = await idle(session);
    expect(lines(view).slice(2)).toEqual(["user: message two", "agent: direct"]);
    expect(view.tasks).toHaveLength(1);
    await session.send(said("three"));
    expect(place.gateway.accepted.at(-1)?.["referenceTaskIds"]).toEqual(["t1"]);
  });
});

describe("tasks that wait (scenario 16, 17)", () => {
  it("answers the same task, and refers to it afterwards", async () => {
    const session = await place.open();
    await session.send(said("ask"));
    expect(lines(await idle(session))).toEqual(["user: ask", "question: Which one?"]);
    const tasks = session.records.list.filter(({ kind, direction }) => kind === "task" && direction === "received");
    expect(tasks.every(({ body }) => "status" in (body as object))).toBe(true);
    await session.send(said("that one"));
    expect(lines(await idle(session))).toEqual(["user: ask", "agent: Which one?", "user: that one", "agent: echo that one"]);
    await session.send(said("more"));
    const { accepted } = place.gateway;
    expect(accepted.map((message) => message["taskId"])).toEqual([undefined, "t1", undefined]);
    expect(accepted.map((message) => message["referenceTaskIds"])).toEqual([undefined, undefined, ["t1"]]);
  });

  it("keeps a credential out of everything that is shown and recorded", async () => {
    const session = await place.open();
    await session.send(said("auth"));
    expect((await idle(session)).paused?.state).toBe("auth-required");
    await session.send(said("here", { secret: "hunter2" }));
    await idle(session);
    expect(JSON.stringify(place.gateway.calls("SendMessage"))).toContain("hunter2");
    expect(JSON.stringify([session.view.value, session.records.list])).not.toContain("hunter2");
  });

  it("answers a task that has ended meanwhile with a new one that refers to it", async () => {
    const session = await place.open();
    await session.send(said("ask"));
    await idle(session);
    session.setVisible(false);
    place.gateway.fault = (request) => (request.path.endsWith("/watch") || request.rpc === "SubscribeToTask" ? "break" : undefined);
    place.gateway.breakStreams();
    await until(session, (view) => view.connection === "lost");
    const { version } = place.gateway;
    place.gateway.tell("t1", "canceled");
    place.gateway.version = version;
    expect(await session.send(said("that one"))).toBeNull();
    expect(place.gateway.accepted.at(-1)?.["referenceTaskIds"]).toEqual(["t1"]);
  });
});

describe("stop (scenarios 14, 15)", () => {
  it("shows what the server says, and a late working changes nothing", async () => {
    const session = await place.open();
    await session.send(said("hold"));
    place.gateway.tell("t1", "working", "half", { partial: true, id: "m" });
    await until(session, ({ rows }) => rows.length === 2);
    await session.stop();
    const view = await idle(session);
    expect(view.tasks[0]?.state).toBe("canceled");
    expect(lines(view)).toEqual(["user: hold", "agent: half (interrupted)", "end: canceled"]);
    expect(place.gateway.calls("CancelTask")).toHaveLength(1);
  });

  it("shows a task as completed that ended before the cancel came, without an error", async () => {
    const session = await place.open();
    await session.send(said("hold"));
    await until(session, (view) => view.running !== null);
    place.gateway.fault = (request) => {
      if (request.rpc === "CancelTask") place.gateway.tell("t1", "completed", "done");
      return undefined;
    };
    await session.stop();
    const view = await idle(session);
    expect(lines(view)).toEqual(["user: hold", "agent: done"]);
    expect([view.notice, view.stopping, view.tasks[0]?.state]).toEqual([null, false, "completed"]);
  });
});

describe("rewind and undo (scenarios 3, 19-22)", () => {
  it("cuts, gives the text back, can be undone, and never repeats a message", async () => {
    const session = await place.open();
    for (const text of ["A", "B", "C"]) await session.send(said(text)).then(() => idle(session));
    expect(await session.rewind("i-t2")).toMatchObject({ text: "B" });
    expect(lines(session.view.value)).toEqual(["user: A", "agent: echo A"]);
    expect(session.view.value.canUndo).toBe(true);
    expect(await session.undo()).toBeNull();
    expect(lines(session.view.value)).toEqual(["user: A", "agent: echo A", "user: B", "agent: echo B", "user: C", "agent: echo C"]);
    await session.rewind("i-t2");
    await session.send(said("A"));
    const view = await idle(session);
    expect(lines(view)).toEqual(["user: A", "agent: echo A", "user: A", "agent: echo A"]);
    expect([view.canUndo, view.tasks.map(({ id }) => id)]).toEqual([false, ["t1", "t4"]]);
  });

  it("offers the undo after a reload, until it is too late", async () => {
    const session = await place.open();
    for (const text of ["A", "B"]) await session.send(said(text)).then(() => idle(session));
    await session.rewind("i-t2");
    const reloaded = await place.open({ id: session.view.value.id });
    expect([lines(reloaded.view.value), reloaded.view.value.canUndo]).toEqual([["user: A", "agent: echo A"], true]);
    place.gateway.begin("of another");
    expect(await reloaded.undo()).toMatchObject({ code: "TOO_LATE_TO_UNDO" });
  });

  it("hides the cut at once and restores everything when the server does not do it", async () => {
    const session = await place.open();
    for (const text of ["A", "B"]) await session.send(said(text)).then(() => idle(session));
    let shown: string[] = [];
    place.gateway.fault = (request) => {
      if (request.rpc !== "SendMessage") return undefined;
      shown = lines(session.view.value);
      return { error: { code: -32602, message: "no", data: [{ "@type": "google.rpc.ErrorInfo", reason: "REWIND_IN_FLIGHT" }] } };
    };
    expect(await session.rewind("i-t2")).toMatchObject({ code: "REWIND_IN_FLIGHT" });
    expect(shown).toEqual(["user: A", "agent: echo A"]);
    expect(lines(session.view.value)).toEqual(["user: A", "agent: echo A", "user: B", "agent: echo B"]);
    expect(session.view.value.rewinding).toBe(false);
  });

  it("takes the reason from a task that failed, and follows the other tab that was faster", async () => {
    const session = await place.open();
    for (const text of ["A", "B"]) await session.send(said(text)).then(() => idle(session));
    place.gateway.task("t2").cut = true;
    expect(await session.rewind("i-t2")).toMatchObject({ message: "not in effect" });
    expect(lines(await until(session, ({ rows }) => rows.length === 2))).toEqual(["user: A", "agent: echo A"]);
  });

  it("does two clicks once", async () => {
    const session = await place.open();
    for (const text of ["A", "B"]) await session.send(said(text)).then(() => idle(session));
    const [first, second] = await Promise.all([session.rewind("i-t2"), session.rewind("i-t2")]);
    expect([first, second]).toEqual([expect.objectContaining({ text: "B" }), expect.objectContaining({ code: "REWIND_IN_FLIGHT" })]);
    expect(place.gateway.accepted).toHaveLength(3);
  });

  it("repeats a rewind whose answer was lost under the same key", async () => {
    const session = await place.open();
    for (const text of ["A", "B"]) await session.send(said(text)).then(() => idle(session));
    let lost = 0;
    place.gateway.fault = (request) => (request.rpc === "SendMessage" && lost++ === 0 ? "lose" : undefined);
    expect(await session.rewind("i-t2")).toMatchObject({ text: "B" });
    const keys = place.gateway.calls("SendMessage").slice(-2).map(({ headers }) => headers["idempotency-key"]);
    expect(keys[0]).toBe(keys[1]);
    expect(lines(session.view.value)).toEqual(["user: A", "agent: echo A"]);
  });

  it("cuts a running turn, and nothing of it comes back", async () => {
    const session = await place.open();
    await session.send(said("A"));
    await idle(session);
    await session.send(said("hold B"));
    place.gateway.tell("t2", "working", "some", { partial: true, id: "m" });
    await until(session, ({ rows }) => rows.length === 4);
    await session.rewind("i-t2");
    place.gateway.tell("t2", "canceled", "late");
    place.gateway.begin("C");
    const view = await until(session, ({ rows, running }) => rows.length === 4 && !running);
    expect(lines(view)).toEqual(["user: A", "agent: echo A", "user: C", "agent: echo C"]);
  });

  it("asks now and then only for a task of another client that is put back with the history, but has ended", async () => {
    const { gateway, api } = place;
    const session = await place.open();
    for (const text of ["A", "B"]) await session.send(said(text)).then(() => idle(session));
    let cut: string[] = [];
    gateway.fault = ({ rpc }) => {
      if (rpc !== "SendMessage") return undefined;
      cut = lines(session.view.value);
      gateway.begin("hold C");
      return undefined;
    };
    expect(await session.rewind("i-t2")).toMatchObject({ text: "B" });
    expect(cut).toEqual(["user: A", "agent: echo A"]);
    const before = gateway.calls("SubscribeToTask").length;
    gateway.unheard.add("t3");
    gateway.task("t3").cut = false;
    gateway.change();
    await eventually(() => gateway.calls("SubscribeToTask").length > before);
    const asked = gateway.seen.length;
    for (let turn = 0; turn < 100; turn++) await api.session(session.id);
    expect(gateway.seen.length - asked).toBeLessThan(100 + 30);
    expect(session.view.value.running?.id).toBe("t3");
    gateway.unheard.clear();
    expect(lines(await idle(session))).toEqual(["user: A", "agent: echo A", "user: hold C", "end: canceled"]);
  });

  it("is not kept at work by a message that failed and names the task that another client cut", async () => {
    const session = await place.open();
    await session.send(said("A")).then(() => idle(session));
    const { id } = place.gateway.begin("hold C");
    await until(session, ({ running, connection }) => running !== null && connection === "live");
    place.gateway.fault = ({ rpc }) => (rpc === "SendMessage" ? { status: 500, body: { error: "broken" } } : undefined);
    expect(await session.send(said("D"))).toMatchObject({ status: 500 });
    Object.assign(place.gateway.task(id), { state: "canceled", cut: true });
    place.gateway.breakStreams();
    expect(lines(await idle(session))).toEqual(["user: A", "agent: echo A", "user: D (failed)"]);
  });

  it("is followed by another client", async () => {
    const session = await place.open();
    for (const text of ["A", "B"]) await session.send(said(text)).then(() => idle(session));
    const other = await place.open({ id: session.view.value.id });
    await idle(other);
    await session.rewind("i-t2");
    expect(lines(await until(other, ({ rows }) => rows.length === 2))).toEqual(["user: A", "agent: echo A"]);
  });
});

describe("joining", () => {
  it("shows a task that ended between the list and the stream, without an error (scenario 8)", async () => {
    const session = await place.open();
    await session.send(said("hold"));
    place.gateway.fault = (request) => {
      if (request.rpc === "SubscribeToTask" && place.gateway.task("t1").state !== "completed")
        place.gateway.tell("t1", "completed", "done");
      return undefined;
    };
    const other = await place.open({ id: session.view.value.id });
    const view = await idle(other);
    expect(lines(view)).toEqual(["user: hold", "agent: done"]);
    expect([view.notice, view.failure]).toEqual([null, null]);
  });

  it("follows what another client sends", async () => {
    const session = await place.open();
    await session.send(said("A"));
    await idle(session);
    place.gateway.begin("hold of another");
    await until(session, (view) => view.running !== null);
    place.gateway.tell("t2", "working", "one ", { partial: true, id: "m" });
    place.gateway.tell("t2", "working", "two", { partial: true, id: "m" });
    const view = await until(session, (now) => lines(now).includes("agent: one two (live)"));
    expect(lines(view).slice(2)).toEqual(["user: hold of another", "agent: one two (live)"]);
  });

  it("shows the tasks that were known last until the server can be reached, and then what it says (M10)", async () => {
    const entries = new Map<string, string>();
    const storage = { getItem: (key: string) => entries.get(key) ?? null, setItem: (key: string, value: string) => entries.set(key, value) };
    const stored = new Stored(() => storage as unknown as Storage);
    const session = await place.open({ stored });
    await session.send(said("A"));
    const { id } = await idle(session);
    session.close();
    place.gateway.begin("B");
    place.gateway.fault = (request) => (request.method === "GET" ? "break" : undefined);
    const again = await place.open({ id, stored });
    expect([again.view.value.status, again.view.value.tasks.map((task) => task.id)]).toEqual(["loading", ["t1"]]);
    place.gateway.fault = () => undefined;
    expect((await until(again, (view) => view.status === "ready")).tasks.map((task) => task.id)).toEqual(["t1", "t2"]);
  });

  it("says that a session is missing", async () => {
    const session = await place.open({ id: "nowhere" });
    expect([session.view.value.status, session.view.value.failure?.status]).toEqual(["missing", 404]);
    expect(place.gateway.streams).toBe(0);
  });

  it("waits for a server that cannot be reached yet", async () => {
    const first = await place.open();
    await first.send(said("A"));
    const { id } = await idle(first);
    first.close();
    await place.gateway.stop();
    const opening = place.open({ id });
    const session = await opening;
    expect([session.view.value.status, session.view.value.connection]).toEqual(["loading", "lost"]);
    await place.gateway.start();
    expect(lines(await until(session, (view) => view.status === "ready"))).toEqual(["user: A", "agent: echo A"]);
  });

  it("does not stream to a page that is hidden for long, and resumes when it is shown", async () => {
    const session = await place.open({ hiddenAfter: 1 });
    await session.send(said("hold"));
    place.gateway.tell("t1", "working", "one ", { partial: true, id: "m" });
    await until(session, (view) => lines(view).includes("agent: one (live)") || lines(view).includes("agent: one  (live)"));
    session.setVisible(false);
    await eventually(() => place.gateway.streams === 0);
    place.gateway.tell("t1", "working", "two", { partial: true, id: "m" });
    session.setVisible(true);
    const view = await until(session, (now) => lines(now).includes("agent: one two (live)"));
    expect(view.connection).toBe("live");
    expect(place.gateway.calls("SubscribeToTask").at(-1)?.headers["last-event-id"]).toBe("log-2");
    expect(place.gateway.calls("SendMessage")).toHaveLength(1);
  });
});
