import { execFileSync } from "node:child_process";
import { expect, test } from "vitest";
import { askedIn } from "../src/model/asked";
import { Artifacts } from "../src/model/artifacts";
import { Conversation } from "../src/model/conversation";
import { MOST, fileName, isPicture, picturesOf, preview } from "../src/model/preview";
import { Sieve, UNKNOWN, type WireRecord, gist, logged } from "../src/model/records";
import { curl } from "../src/model/snippets";
import { type Message, type Piece, classify, readMessage, readPiece } from "../src/model/events";
import { Rows } from "../src/model/rows";
import { idle, lasted, readTaskInfo, segments } from "../src/model/tasks";
import type { TaskInfo } from "../src/model/view";

const at = (second: number) => new Date(Date.UTC(2026, 0, 1, 0, 0, second)).toISOString();
const task = (given: object) => readTaskInfo({ taskId: "t", createdAt: at(0), updatedAt: at(0), ...given }) as TaskInfo;

test("a task has a segment for each state, with its time, and none that is negative", () => {
  const changes = [
    { state: "pending", at: at(0) },
    { state: "working", at: at(1) },
    { state: "working", at: at(2) },
    { state: "working", paused: true, at: at(4) },
    { state: "completed", at: at(3) },
  ];
  const done = segments(task({ state: "completed", changes, completedAt: at(3) }), 0);
  expect(done.map(({ state, ms }) => [state, ms])).toEqual([["submitted", 1000], ["working", 3000], ["input-required", 0], ["completed", 0]]);
  expect(lasted(done)).toBe(4000);
  expect(segments(task({ state: "working", changes: changes.slice(0, 3) }), Date.parse(at(9))).at(-1)?.ms).toBe(8000);
  expect(segments(task({ state: "working" }), Date.parse(at(2)))).toEqual([{ state: "working", at: at(0), ms: 2000 }]);
});

test("idle time is between the end of one task and the beginning of the next", () => {
  expect(idle(task({ completedAt: at(5) }), task({ createdAt: at(65) }))).toBe(60_000);
  expect(idle(task({}), task({ createdAt: "" }))).toBe(0);
});

const record = (number: number, kind: string, body: unknown): WireRecord => ({ number, at: 0, direction: "received", kind, taskId: "t", messageId: "", cursor: "", body, unknown: 0 });

test("a sieve looks at each record once, counts all, and follows a ring that drops its oldest", () => {
  const all = [record(1, "unknown", { a: "First" }), record(2, "task", {}), record(3, "unknown", { a: "second" })];
  const sieve = new Sieve("unknown");
  sieve.take(all);
  sieve.take(all);
  expect(sieve.rows.map(({ number }) => number)).toEqual([1, 3]);
  expect([...sieve.counts]).toEqual([["unknown", 2], ["task", 1]]);
  sieve.take([...all.slice(1), record(4, "unknown", {})]);
  expect(sieve.rows.map(({ number }) => number)).toEqual([3, 4]);
  const words = new Sieve("", "FIRST");
  words.take(all);
  expect(words.rows.map(({ number }) => number)).toEqual([1]);
});

test("a record with an unknown part counts among the unknown ones beside its own kind", () => {
  const message = { messageId: "m", role: "ROLE_AGENT", parts: [{ text: "Hello" }, { hologram: {} }, "bare"] };
  const status = { statusUpdate: { taskId: "t", status: { state: "TASK_STATE_WORKING", message } } };
  const event = (of: unknown) => logged("t", { generation: 1, attempt: 1, time: at(0), actor: "run", kind: "status", event: of });
  expect([event(status).unknown, event({ surprise: 1 }).unknown, event(null).unknown]).toEqual([2, 1, 0]);
  const sieve = new Sieve(UNKNOWN);
  sieve.take([record(1, "task", {}), { ...event(status), number: 2 }]);
  expect([...sieve.counts]).toEqual([["task", 1], ["status", 1], [UNKNOWN, 1]]);
  expect(sieve.rows.map(({ number }) => number)).toEqual([2]);
});

test("a part of an unknown form keeps all that it has", () => {
  const { parts } = readMessage({ parts: [{ hologram: { of: "a cat" } }, "bare", { kind: "text", text: "" }, { data: null }, {}] });
  expect(parts.map(({ unknown }) => unknown)).toEqual([{ hologram: { of: "a cat" } }, "bare", undefined, undefined, {}]);
  expect(preview(parts[0]!, "").text).toContain("a cat");
});

test("images are those of safe types, by type or name, and one in pieces is one", () => {
  const png = "iVBORw0KGgoAAAAN";
  const names = (...parts: object[]) => picturesOf(parts, "it").map(({ name, bytes }) => [name, bytes.length]);
  expect(names({ raw: png, mediaType: "IMAGE/PNG; q=1" }, { raw: png, filename: "a.png" })).toEqual([["it", 12], ["a.png", 12]]);
  expect(names({ raw: png, mediaType: "image/png" }, { raw: "AAAA", mediaType: "image/png" }, { raw: "AAAA" })).toEqual([["it", 18]]);
  expect(names({ raw: png, mediaType: "image/svg+xml" }, { raw: png, filename: "a.svg" }, { url: "https://x/a.png" })).toEqual([]);
  expect(["image/webp", "image/svg+xml", "text/html", "image/png+xml"].map(isPicture)).toEqual([true, false, false, false]);
});

test("artifacts stand after the messages that they came after, else by their times, else at the end of their task", () => {
  const message = (id: string, second: number) => ({
    ...readMessage({ messageId: id, role: "agent", parts: [{ text: id }], metadata: { "taskplane.dev/time": at(second) } }), taskId: "t",
  });
  const piece = (id: string, more: object = {}) => readPiece({ artifactId: id, parts: [{ text: "x" }], ...more });
  const of = (live: Message[], ...pieces: Piece[]) => {
    const artifacts = new Artifacts();
    for (const one of pieces) artifacts.put("t", one, true);
    const growing = new Map(live.map((one) => ["t", one]));
    const shown = { messages: [message("a", 1), message("b", 3)], live: growing, artifacts: artifacts.of, tasks: [task({ state: "working" })] };
    return new Rows().of({ ...shown, paused: null, hasOlder: false, rewinding: false }).map(({ key }) => key.replace("artifact-t/", ""));
  };
  expect(of([], piece("1", { afterMessageId: "a" }), piece("2"), piece("3", { afterMessageId: "b" }))).toEqual(["a", "1", "b", "3", "2"]);
  const gone = (second: number) => ({ afterMessageId: "not shown", createdAt: at(second) });
  expect(of([], piece("1", gone(2)), piece("2", gone(4)), piece("3", gone(0)))).toEqual(["a", "1", "3", "b", "2"]);
  expect(of([message("c", 5)], piece("1", { afterMessageId: "c" }), piece("2", { afterMessageId: "b" }))).toEqual(["a", "b", "2", "c", "1"]);
});

test("an artifact keeps the place of its first piece, which is the message that was newest then", () => {
  const conversation = new Conversation("s", [task({ state: "working" })]);
  const say = (id: string, partial = false) => conversation.apply(classify({ statusUpdate: { taskId: "t", status: {
    state: "working", message: { messageId: id, role: "agent", parts: [{ text: id }], metadata: { kagent_adk_partial: partial } } } } }));
  const make = (artifactId: string) => conversation.apply(classify({ artifactUpdate: { taskId: "t", artifact: { artifactId, parts: [{ text: "x" }] } } }));
  make("0");
  say("a");
  make("1");
  say("b", true);
  make("2");
  make("1");
  say("b");
  make("3");
  expect(conversation.artifacts.map(({ id, after }) => [id, after])).toEqual([["0", ""], ["1", "a"], ["2", "b"], ["3", "b"]]);
});

test("a task that failed has the code of its error, from an event as from a list", () => {
  expect(task({ state: "failed", error: "no", errorCode: "AGENT_ERROR" }).code).toBe("AGENT_ERROR");
  const conversation = new Conversation("s", [task({ state: "working" })]);
  const status = { state: "failed", message: { messageId: "m", role: "agent", parts: [{ text: "no" }], metadata: { reason: "EXECUTOR_LOST" } } };
  conversation.apply(classify({ statusUpdate: { taskId: "t", status } }));
  expect(conversation.tasks.find("t")).toMatchObject({ error: "no", code: "EXECUTOR_LOST" });
});

test("the gist of a record has its state and its words", () => {
  const status = { statusUpdate: { taskId: "t", status: { state: "TASK_STATE_WORKING", message: { role: "ROLE_AGENT", parts: [{ text: "Hello" }] } } } };
  expect(gist(record(1, "status-update", status))).toBe("working Hello");
  expect(gist(record(1, "status", { generation: 1, event: status }))).toBe("working Hello");
  expect(gist(record(1, "request", { method: "SendMessage", params: { message: { parts: [{ text: "Hi" }] } } }))).toBe("SendMessage Hi");
  expect(gist(record(1, "error", { code: "OFFLINE", message: "No network" }))).toBe("OFFLINE No network");
  expect(gist(record(1, "unknown", [1]))).toBe("[1]");
});

test("a curl command gives the shell exactly what was meant, and no key", () => {
  const body = { text: `it's "$HOME" \`id\` \\ !\n${"é"}` };
  const command = curl({ url: "http://h/a?b=c&d='", headers: { "X-A": "1'2", Authorization: "Bearer secret" }, body }, true);
  expect(command).not.toContain("secret");
  const printed = execFileSync("sh", ["-c", command.replace("curl", "printf '%s\\n'")], { env: { TASKPLANE_KEY: "k" }, encoding: "utf8" });
  expect(printed.split("\n")).toEqual(["-sSN", "http://h/a?b=c&d='", "-H", "Authorization: Bearer k", "-H", "X-A: 1'2", "-H", "Content-Type: application/json", "--data-raw", JSON.stringify(body), ""]);
});

const base64 = (text: string) => Buffer.from(text).toString("base64");

test("parts are shown by their type, by the ending of a name, or by how they look", () => {
  const kinds = (part: object, name = "") => preview(part, name).kind;
  expect(kinds({ text: "plain" })).toBe("text");
  expect(kinds({ text: "# Title\n" })).toBe("markdown");
  expect(kinds({ text: "<p>", mediaType: "text/html; charset=utf-8" })).toBe("html");
  expect(kinds({ text: "x" }, "a.md")).toBe("markdown");
  expect(kinds({ text: "{ broken", mediaType: "application/json" })).toBe("text");
  expect(preview({ raw: base64("[1]"), mediaType: "application/json" }, "").text).toBe("[\n  1\n]");
  expect(kinds({ bytes: new Uint8Array(), mediaType: "text/csv" })).toBe("text");
  expect(kinds({ raw: "AAAA", mediaType: "image/png" })).toBe("image");
  expect(kinds({ raw: "AAAA" })).toBe("none");
  expect(kinds({ url: "https://x" })).toBe("link");
  expect(preview({ data: 0 }, "").text).toBe("0");
});

test("a preview has the beginning of a long text only", () => {
  const text = preview({ text: "x".repeat(5_000_000) }, "");
  const raw = preview({ raw: base64("ü".repeat(100_000)), mediaType: "text/plain" }, "");
  expect(text).toMatchObject({ cut: true, text: "x".repeat(MOST) });
  expect(raw).toMatchObject({ cut: true, kind: "text" });
  expect(preview({ text: "x".repeat(MOST) }, "")).toMatchObject({ cut: false });
});

test("a file gets the name that its agent gave it, or one that can be stored", () => {
  expect(fileName({ id: "a", name: "Table" }, [{ raw: "", filename: "x.csv" }])).toBe("x.csv");
  expect(fileName({ id: "a", name: "../My: plan" }, [{ text: "" }])).toBe(".._My_ plan.txt");
  expect(fileName({ id: "a", name: "" }, [{ data: {} }])).toBe("a.json");
  expect(fileName({ id: "a", name: "b.md" }, [{ text: "" }])).toBe("b.md");
  expect(fileName({ id: "a", name: "pic" }, [{ raw: "", mediaType: "image/png" }])).toBe("pic.png");
});

test("what data asks for is read in the shapes of all frameworks, and is nothing where it asks for nothing", () => {
  const call = { name: "pay", args: { sum: 3 } };
  const asked = { name: "pay", words: "", args: { sum: 3 } };
  const shapes = [
    { action_requests: [call], review_configs: [] }, { calls: [{ id: "1", kind: "approval", ...call }] }, [call], { value: [call] }, call,
    { action_request: { action: "pay", args: { sum: 3 } } }, { action: "pay", arguments: { sum: 3 } },
    { name: "adk_request_confirmation", args: { originalFunctionCall: call, toolConfirmation: {} } },
  ];
  for (const shape of shapes) expect(askedIn(shape)).toEqual([asked]);
  expect(askedIn({ question: "Sure?", action_requests: [] })).toEqual([{ name: "", words: "Sure?", args: undefined }]);
  for (const other of [null, 3, "text", [], {}, [1], { amount: 3 }]) expect(askedIn(other)).toEqual([]);
});

test("a call of a tool waits while its task does, and has failed where its result is an error", () => {
  const part = (type: string, data: object) => ({ data: { id: "1", name: "pay", ...data }, metadata: { kagent_type: type } });
  const state = (of: string, response?: unknown) => {
    const parts = [part("function_call", { args: {} }), ...(response === undefined ? [] : [part("function_response", { response })])];
    const messages = [{ ...readMessage({ messageId: "m", role: "agent", parts }), taskId: "t" }];
    const shown = { messages, live: new Map(), artifacts: new Map(), tasks: [task({ state: of })], paused: null, hasOlder: false, rewinding: false };
    const row = new Rows().of(shown).find(({ kind }) => kind === "tools");
    return row?.kind === "tools" && row.calls[0]!.state;
  };
  expect(["working", "input-required", "auth-required", "canceled"].map((of) => state(of))).toEqual(["running", "waiting", "waiting", "interrupted"]);
  for (const error of [{ error: "no" }, { isError: true, content: [] }, { status: "error" }]) expect(state("completed", error)).toBe("failed");
  for (const fine of ["error", { result: 3 }, { error: null }, { isError: false }, null]) expect(state("completed", fine)).toBe("done");
});

test("each answer and each message of the user can be rewound but the first message, before which there is nothing", () => {
  const message = (id: string, role: string, turn: string) =>
    readMessage({ messageId: id, role, parts: [{ text: id }], metadata: { kagent_invocation_id: turn } });
  const messages = [message("A", "user", "1"), message("a", "agent", "1"), message("B", "user", "2"), message("b", "agent", "2")];
  const offered = (hasOlder: boolean) => {
    const shown = { messages, live: new Map(), artifacts: new Map(), tasks: [], paused: null, hasOlder, rewinding: false };
    return new Rows().of(shown).flatMap((row) => (row.kind === "message" && row.canRewind ? row.key : []));
  };
  expect(offered(false)).toEqual(["a", "B", "b"]);
  expect(offered(true)).toEqual(["A", "a", "B", "b"]);
});
