/** A gateway in miniature over real HTTP: sessions, tasks with logs, streams that resume, and faults on request. */

import { type IncomingMessage, type Server, type ServerResponse, createServer } from "node:http";
import type { AddressInfo, Socket } from "node:net";

type Body = Record<string, any>;

export interface Seen {
  readonly method: string;
  readonly path: string;
  readonly rpc: string;
  readonly headers: IncomingMessage["headers"];
  readonly body: Body;
}

/** What happens to a request instead of an answer: an answer of another kind, a connection that breaks before or
 * after, no answer until `breakStreams`, or one that takes its time. */
export type Fault = { status: number; body: Body } | { error: Body } | "break" | "lose" | "mute" | "hang" | "later";

interface Task {
  readonly id: string;
  state: string;
  history: Body[];
  artifacts: Body[];
  partial: Body | null;
  /** Direct answers that came after it, with their questions. */
  after: Body[];
  log: Body[];
  cut: boolean;
}

export class Gateway {
  readonly seen: Seen[] = [];
  /** The messages that had an effect. */
  readonly accepted: Body[] = [];
  readonly tasks = new Map<string, Task>();
  /** Tasks that have ended though their session has not heard of it. */
  readonly unheard = new Set<string>();
  version = 0;
  /** The first cursor of logs; another one makes known cursors stale. */
  incarnation = "log";
  /** The kind of the first event of a log; another one than `created`: its beginning is gone. */
  kindOfFirst = "created";
  fault: (request: Seen) => Fault | undefined = () => undefined;
  /** Ends a task as soon as it begins, unless its text begins with `hold`. */
  answer = (task: Task, text: string): void => {
    if (text === "ask") this.tell(task.id, "input-required", "Which one?");
    else if (text === "auth") this.tell(task.id, "auth-required", "Sign in.");
    else if (!text.startsWith("hold")) this.tell(task.id, "completed", `echo ${text}`);
  };
  readonly #keys = new Map<string, Body>();
  readonly #waiting = new Set<() => void>();
  readonly #sockets = new Set<Socket>();
  readonly #streams = new Set<ServerResponse>();
  #watchers: ServerResponse[] = [];
  #server: Server;
  #contextId = "";
  #undoable: string[] = [];
  #port = 0;

  constructor() {
    this.#server = this.#made();
  }

  async start(): Promise<URL> {
    await new Promise<void>((resolve) => this.#server.listen(this.#port, "127.0.0.1", resolve));
    this.#port = (this.#server.address() as AddressInfo).port;
    return new URL(`http://127.0.0.1:${this.#port}/`);
  }

  async stop(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    await new Promise((resolve) => this.#server.close(resolve));
    this.#server = this.#made();
  }

  /** Break all streams that are open, and what is not answered. */
  breakStreams(): void {
    for (const stream of this.#streams) stream.socket?.destroy();
  }

  get streams(): number {
    return this.#streams.size;
  }

  calls(rpc: string): Seen[] {
    return this.seen.filter((one) => one.rpc === rpc);
  }

  /** Add a status to a task's log; `partial`: a piece of a text that grows. */
  tell(taskId: string, state: string, text = "", options: { partial?: boolean; id?: string; progress?: boolean } = {}): void {
    const task = this.task(taskId);
    const metadata = {
      kagent_invocation_id: `i-${taskId}`,
      ...(options.partial ? { kagent_adk_partial: true } : {}),
      ...(options.progress ? { kind: "status-message" } : {}),
    };
    const messageId = options.id ?? `${taskId}-${task.log.length}`;
    const message = text ? { messageId, taskId, role: "ROLE_AGENT", parts: [{ text }], metadata } : undefined;
    task.state = state;
    if (message && options.partial) task.partial = { ...message, parts: [{ text: (task.partial?.parts[0].text ?? "") + text }] };
    else if (message && !options.progress) {
      task.partial = null;
      task.history.push(message);
    }
    if (!message && task.partial && !["submitted", "working"].includes(state)) {
      task.history.push({ ...task.partial, metadata: { interrupted: true } });
      task.partial = null;
    }
    this.#log(task, { statusUpdate: { taskId, contextId: this.#contextId, status: { state: named(state), message } } });
    this.#watch("task-state-changed", this.info(task));
  }

  /** Begin a task of another client. */
  begin(text: string): Task {
    return this.#begin({ messageId: `other-${this.tasks.size}`, role: "ROLE_USER", parts: [{ text }] });
  }

  /** Add an entry of another client that shows nothing. */
  change(): void {
    this.version++;
    this.#watch("entry-added", { kind: "event", version: this.version });
  }

  task(id: string): Task {
    const task = this.tasks.get(id);
    if (!task) throw new Error(`no task ${id}`);
    return task;
  }

  info({ id, state }: Task): Body {
    const paused = state.endsWith("required");
    return { taskId: id, state: paused || this.unheard.has(id) ? "working" : state, paused, agent: "demo", changes: [] };
  }

  get #effective(): Task[] {
    return [...this.tasks.values()].filter((task) => !task.cut);
  }

  get #conversation(): Body[] {
    return this.#effective.flatMap((task) => [...task.history, ...task.after]);
  }

  #begin(message: Body): Task {
    const id = `t${this.tasks.size + 1}`;
    const said = { ...message, taskId: id, metadata: { kagent_invocation_id: `i-${id}` } };
    const task: Task = { id, state: "submitted", history: [said], artifacts: [], partial: null, after: [], log: [], cut: false };
    this.tasks.set(id, task);
    this.#undoable = [];
    this.#log(task, { task: this.#json(task) });
    this.#watch("entry-added", { kind: "message", taskId: id, message: said, version: this.version });
    this.#watch("task-received", this.info(task));
    this.answer(task, message["parts"][0]?.text ?? "");
    return task;
  }

  #log(task: Task, event: Body): void {
    this.version++;
    task.log.push(event);
    for (const wake of this.#waiting) wake();
  }

  #watch(name: string, data: Body): void {
    for (const watcher of this.#watchers) watcher.write(`event: ${name}\ndata: ${JSON.stringify(data)}\n\n`);
  }

  #json(task: Task, resync = ""): Body {
    const { id, state, history, artifacts, log } = task;
    const metadata = { "taskplane.dev/cursor": `${this.incarnation}-${log.length || 1}`, ...(resync ? { "taskplane.dev/resync": resync } : {}) };
    const message = task.partial ?? undefined;
    return { id, contextId: this.#contextId, status: { state: named(state), message }, history: [...history], artifacts, metadata };
  }

  #made(): Server {
    const server = createServer((request, response) => void this.#serve(request, response));
    server.on("connection", (socket) => {
      this.#sockets.add(socket);
      socket.on("close", () => this.#sockets.delete(socket));
    });
    return server;
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    let text = "";
    for await (const chunk of request) text += String(chunk);
    const body = text ? (JSON.parse(text) as Body) : {};
    const seen: Seen = { method: request.method ?? "", path: request.url ?? "", rpc: body["method"] ?? "", headers: request.headers, body };
    this.seen.push(seen);
    const fault = this.fault(seen);
    const json = (status: number, data: unknown): void => {
      response.writeHead(status, { "Content-Type": "application/json" }).end(JSON.stringify(data));
    };
    if (fault === "later") await new Promise((resolve) => setTimeout(resolve, 200));
    if (fault === "break") return void request.socket.destroy();
    if (fault === "hang") return void response.writeHead(200, { "Content-Type": "text/event-stream" }).flushHeaders();
    if (typeof fault === "object") return "error" in fault ? json(200, { id: 1, error: fault.error }) : json(fault.status, fault.body);
    if (seen.rpc === "SubscribeToTask") return this.#subscribe(seen, response, json);
    if (seen.path.endsWith("/watch")) return this.#watching(response);
    const [, read = ""] = /^\/api\/tasks\/(\w+)\/events$/.exec(seen.path) ?? [];
    if (read) return this.#events(this.task(read), response);
    const [status, answer] = seen.rpc ? [200, this.#call(seen)] : this.#route(seen);
    if (fault === "lose") return void request.socket.destroy();
    if (fault === "mute") return void this.#streams.add(response);
    json(status, answer);
  }

  #call({ rpc, body, headers }: Seen): Body {
    const error = (code: number, message: string, reason: string): Body => ({
      id: 1,
      error: { code, message, data: [{ "@type": "type.googleapis.com/google.rpc.ErrorInfo", reason, metadata: { reason } }] },
    });
    if (rpc === "CancelTask") {
      const task = this.task(body["params"].id);
      if (["completed", "failed", "canceled"].includes(task.state)) return error(-32002, "has ended", "TASK_NOT_CANCELABLE");
      this.tell(task.id, "canceled");
      return { id: 1, result: this.#json(task) };
    }
    const { message } = body["params"];
    const key = String(headers["idempotency-key"]);
    const known = this.#keys.get(key);
    if (known) return known;
    const expected = Number(String(headers["if-match"] ?? "0").replaceAll('"', ""));
    if (expected && expected !== this.version) return error(-32602, "another version", "VERSION_MISMATCH");
    this.#contextId = message.contextId;
    const result = this.#said(message, error);
    if (!("error" in result)) {
      this.#keys.set(key, result);
      this.accepted.push(message);
    }
    return result;
  }

  #said(message: Body, error: (code: number, text: string, reason: string) => Body): Body {
    const before = message["metadata"]?.kagent_rewind_before_invocation_id;
    if (before) {
      const id = String(before).slice(2);
      const place = this.#effective.findIndex((task) => task.id === id);
      const status = place < 0 ? { state: "TASK_STATE_FAILED", message: { messageId: "x", parts: [{ text: "not in effect" }] } } : { state: "TASK_STATE_COMPLETED" };
      if (place < 0) return { id: 1, result: { task: { id: "x", contextId: this.#contextId, status } } };
      const cut = this.#effective.slice(place);
      for (const task of cut) {
        if (!["completed", "failed"].includes(task.state)) this.tell(task.id, "canceled");
        task.cut = true;
      }
      this.#undoable = cut.map((task) => task.id);
      this.version++;
      this.#watch("rewound", { version: this.version, cut: cut.map((task) => `i-${task.id}`) });
      const history = this.#conversation;
      return { id: 1, result: { task: { id: this.#contextId, contextId: this.#contextId, status, history } } };
    }
    if (message["parts"][0]?.text?.startsWith("message ")) {
      const answer = { messageId: `direct-${this.version++}`, role: "ROLE_AGENT", parts: [{ text: "direct" }], contextId: this.#contextId };
      this.#effective.at(-1)?.after.push(message, answer);
      return { id: 1, result: { message: answer } };
    }
    if (message["taskId"]) {
      const task = this.task(message["taskId"]);
      if (["completed", "failed", "canceled"].includes(task.state)) return error(-32004, "has ended", "TERMINAL");
      task.history.push({ ...message, metadata: { kagent_invocation_id: `i-${task.id}` } });
      task.state = "submitted";
      this.#log(task, { statusUpdate: { taskId: task.id, contextId: this.#contextId, status: { state: named("submitted"), message } } });
      const result = { id: 1, result: { task: this.#json(task) } };
      this.answer(task, message["parts"][0]?.text ?? "");
      return result;
    }
    const task = this.#begin(message);
    return { id: 1, result: { task: task.log[0]?.["task"] } };
  }

  #route({ method, path }: Seen): [number, Body] {
    const [, , kind = "", id = "", what = ""] = new URL(path, "http://x").pathname.split("/");
    if (path === "/healthz") return [200, {}];
    const missing: [number, Body] = [404, { error: "does not exist", code: "NOT_FOUND" }];
    if (kind === "tasks" && what !== "events") {
      const task = this.tasks.get(id);
      return task ? [200, { data: what === "artifacts" ? task.artifacts : this.#json({ ...task, partial: null }) }] : missing;
    }
    if (!id) return [200, { data: this.#contextId ? [{ id: this.#contextId, title: "title", version: this.version }] : [] }];
    if (id !== this.#contextId) return missing;
    if (what === "messages") return [200, { data: { messages: this.#conversation, before: null } }];
    if (what === "task-infos") return [200, { data: this.#effective.map((task) => this.info(task)) }];
    if (what === "undo_rewind" && method === "POST") {
      if (!this.#undoable.length) return [409, { error: "too late", code: "TOO_LATE_TO_UNDO" }];
      for (const task of this.#undoable) this.task(task).cut = false;
      this.#undoable = [];
      return [200, { data: { version: ++this.version, messages: this.#conversation } }];
    }
    const session = { id, title: "title", agent: "demo", version: this.version, canUndo: this.#undoable.length > 0 };
    return [200, { data: { session, events: [] } }];
  }

  #subscribe({ body, headers }: Seen, response: ServerResponse, json: (status: number, data: unknown) => void): void {
    const task = this.task(body["params"].id);
    const cursor = String(headers["last-event-id"] ?? "");
    const ended = (): boolean => ["completed", "failed", "canceled"].includes(task.state);
    if (!cursor && ended()) return json(200, { id: 1, error: { code: -32004, message: "the task has ended" } });
    this.#open(response);
    const send = (number: number, result: Body): void => {
      response.write(`id: ${this.incarnation}-${number}\ndata: ${JSON.stringify({ jsonrpc: "2.0", id: 1, result })}\n\n`);
    };
    const [incarnation, number] = cursor.split("-");
    const stale = cursor !== "" && incarnation !== this.incarnation;
    let sent = Number(number ?? 0);
    if (!cursor || stale) {
      sent = task.log.length;
      send(sent, { task: this.#json(task, stale ? "CURSOR_FOREIGN" : "") });
    }
    const more = (): void => {
      for (; sent < task.log.length; sent++) send(sent + 1, task.log[sent] ?? {});
      if (ended()) response.end();
    };
    this.#waiting.add(more);
    response.on("close", () => this.#waiting.delete(more));
    more();
  }

  /** Answer with the log of a task as it is, an event every 250 ms of the server's time. */
  #events(task: Task, response: ServerResponse): void {
    this.#open(response);
    task.log.forEach((event, index) => {
      const update = event["statusUpdate"];
      const kind = index === 0 ? this.kindOfFirst : update?.status.message?.metadata.kind === "status-message" ? "status_text" : "status";
      const time = new Date(Date.UTC(2026, 0, 1) + 250 * index).toISOString();
      response.write(`data: ${JSON.stringify({ generation: index + 1, attempt: 1, actor: "", time, kind, event })}\n\n`);
    });
    response.end();
  }

  #watching(response: ServerResponse): void {
    this.#open(response);
    this.#watchers.push(response);
    response.on("close", () => (this.#watchers = this.#watchers.filter((other) => other !== response)));
    const snapshot = { version: this.version, tasks: this.#effective.map((task) => this.info(task)) };
    response.write(`event: snapshot\ndata: ${JSON.stringify(snapshot)}\n\n`);
  }

  #open(response: ServerResponse): void {
    response.writeHead(200, { "Content-Type": "text/event-stream" });
    response.flushHeaders();
    this.#streams.add(response);
    const ping = setInterval(() => !response.writableEnded && response.write(": ping\n\n"), 20);
    response.on("close", () => {
      clearInterval(ping);
      this.#streams.delete(response);
    });
  }
}

function named(state: string): string {
  return `TASK_STATE_${state.toUpperCase().replace("-", "_")}`;
}
