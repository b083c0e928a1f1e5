/** The routes of a gateway that the page uses. Every method raises Failed. */

import { type Event, type Piece, read, readMessage, readPiece } from "./events";
import { failedHttp, failedRpc, failureOf } from "./failures";
import { type Answer, Http, type Request } from "./http";
import { type Json, number, object, objects, parsed, text } from "./json";
import { OpsApi } from "./ops";
import { credential } from "./outgoing";
import type { SseEvent } from "./sse";
import { readTaskInfos } from "./tasks";
import { stateOf } from "./states";
import type { Message, State, TaskInfo } from "./view";

export interface Config {
  readonly product: string;
  readonly version: string;
  readonly auth: { readonly required: boolean; readonly schemes: readonly string[] };
  readonly caller: {
    readonly user: string;
    readonly tenant: string;
    readonly mayWrite: boolean;
    readonly mayOperate: boolean;
  } | null;
  readonly limits: { readonly body: number };
  readonly agents: readonly {
    readonly name: string;
    readonly title: string;
    readonly description: string;
    readonly isDefault: boolean;
  }[];
  readonly features: { readonly ops: boolean; readonly import: boolean };
}

type Texts<Name extends string> = Readonly<Record<Name, string>>;

/** An agent with its public card of A2A 1.0, of which empty members are left out. */
export interface Agent {
  readonly name: string;
  readonly card: Texts<"name" | "description" | "version"> & {
    readonly documentationUrl?: string;
    readonly provider?: Partial<Texts<"organization" | "url">>;
    readonly supportedInterfaces: readonly Texts<"url" | "protocolBinding" | "protocolVersion">[];
    readonly capabilities: { readonly extensions?: readonly (Texts<"uri"> & Partial<Texts<"description">>)[] };
    readonly skills: readonly (Texts<"id"> & Partial<Texts<"name" | "description"> & { readonly examples: readonly string[] }>)[];
    readonly defaultInputModes: readonly string[];
    readonly defaultOutputModes: readonly string[];
  };
  /** What each security scheme asks for. */
  readonly security: readonly string[];
  readonly warnings: readonly Texts<"code" | "message">[];
}

export interface SessionRow {
  readonly id: string;
  readonly title: string;
  readonly agent: string;
  readonly version: number;
  readonly lastState: State;
  readonly paused: boolean;
  readonly taskCount: number;
  readonly updatedAt: string;
}

export interface LogEvent {
  readonly cursor: string;
  readonly generation: number;
  readonly time: string;
  readonly attempt: number;
  readonly actor: string;
  readonly kind: string;
  /** The A2A 1.0 event; null for kinds that show nothing. */
  readonly event: unknown;
  readonly traceId: string;
}

export interface SendOptions {
  /** The idempotency key. */
  readonly key: string;
  /** The version that the session must have. */
  readonly version?: number;
  /** A credential for the agent, kept and shown nowhere. */
  readonly secret?: string | undefined;
}

/** Milliseconds: an agent may answer directly, after as long as its model takes. */
const SEND_TIMEOUT = 180_000;
const A2A = {
  "A2A-Version": "1.0",
  "A2A-Extensions": "https://taskplane.dev/extensions/growing-text/v1",
};

export class Api {
  readonly root: URL;
  readonly ops: OpsApi;
  readonly #http: Http;
  #calls = 0;

  constructor(root: URL, options: { key: () => string; fetch?: typeof fetch }) {
    this.root = root;
    this.#http = new Http(root, options);
    this.ops = new OpsApi(this.#http);
  }

  async config(): Promise<Config> {
    return unwrap((await this.#http.json("api/ui-config")).data) as Config;
  }

  /** Return whether the server answers. */
  reachable(): Promise<boolean> {
    return this.#http.json("healthz", { timeout: 5_000 }).then(
      () => true,
      (error: unknown) => failureOf(error).status !== 0,
    );
  }

  async agent(name: string): Promise<Agent> {
    return unwrap((await this.#http.json(`api/agents/${encodeURIComponent(name)}`)).data) as Agent;
  }

  async sessions(query: { q?: string; pageToken?: string; limit?: number } = {}): Promise<{ rows: SessionRow[]; next: string }> {
    const { q = "", pageToken = "", limit = 50 } = query;
    const { data } = await this.#http.json(`api/sessions?${params({ q, page_token: pageToken, limit: String(limit) })}`);
    const page = object(data) ?? {};
    return { rows: objects(page["data"]).map(readRow), next: text(page, "next_page_token") };
  }

  async session(id: string): Promise<{ title: string; agent: string; version: number; canUndo: boolean }> {
    const session = object((await this.#data(`${sessionPath(id)}?limit=1`))["session"]) ?? {};
    return {
      title: text(session, "title"),
      agent: text(session, "agent"),
      version: number(session, "version"),
      canUndo: session["canUndo"] === true,
    };
  }

  async rename(id: string, name: string): Promise<void> {
    await this.#http.json(sessionPath(id), { method: "PATCH", body: { name } });
  }

  async deleteSession(id: string): Promise<void> {
    await this.#http.json(sessionPath(id), { method: "DELETE" });
  }

  async messages(id: string, before = "", limit = 100): Promise<{ messages: Message[]; before: string | null }> {
    const page = await this.#data(`${sessionPath(id)}/messages?${params({ before, limit: String(limit) })}`);
    return { messages: objects(page["messages"]).map(readMessage), before: text(page, "before") || null };
  }

  async taskInfos(id: string): Promise<TaskInfo[]> {
    return readTaskInfos(unwrap((await this.#http.json(`${sessionPath(id)}/task-infos`)).data));
  }

  async task(id: string): Promise<Event> {
    return read("task", await this.#data(taskPath(id)));
  }

  /** Return the artifacts of a task, each with the number of its versions. */
  async artifacts(taskId: string): Promise<{ piece: Piece; versions: number }[]> {
    const { data } = await this.#http.json(`${taskPath(taskId)}/artifacts`);
    return objects(unwrap(data)).map((one) => ({ piece: readPiece(one), versions: number(one, "versions") || 1 }));
  }

  /** Return an artifact as a file; `version`: from 1; 0: the newest. */
  artifact(taskId: string, artifactId: string, version = 0): Promise<Blob> {
    const query = version ? `?version=${version}` : "";
    return this.#http.blob(`${taskPath(taskId)}/artifacts/${encodeURIComponent(artifactId)}${query}`);
  }

  /** Return a session as a file: `ndjson`, `json` or `markdown`. */
  exportSession(id: string, format: string): Promise<Blob> {
    return this.#http.blob(`${sessionPath(id)}/export?${params({ format })}`);
  }

  /** Create the session of an exported file, under another id if one is given, and return its id. */
  async importSession(file: Blob, id = ""): Promise<string> {
    const headers = { "Content-Type": "application/x-ndjson" };
    const request = { method: "POST", body: file, headers, timeout: 600_000 };
    const data = await this.#data(`api/sessions/import${id ? `?${params({ id })}` : ""}`, request);
    const session = data["session"];
    return typeof session === "string" ? session : text(object(session) ?? {}, "id");
  }

  /** Send a message with one effect however often it is repeated under one key. Return what it made, as it was on the wire. */
  send(agent: string, message: Json, options: SendOptions): Promise<unknown> {
    const headers = {
      "Idempotency-Key": options.key,
      ...(options.version ? { "If-Match": `"${options.version}"` } : {}),
    };
    const params = { message, configuration: { returnImmediately: true }, ...credential(options.secret) };
    return this.#rpc(agent, "SendMessage", params, headers, SEND_TIMEOUT);
  }

  /** Cancel a task and return it. */
  async cancel(agent: string, taskId: string): Promise<Event> {
    return read("task", object(await this.#rpc(agent, "CancelTask", { id: taskId }, {})) ?? {});
  }

  /** Undo the newest rewind, with one effect however often it is repeated under one key. */
  async undo(id: string, key: string): Promise<{ version: number; messages: Message[] }> {
    const request = { method: "POST", body: {}, headers: { "Idempotency-Key": key } };
    const data = await this.#data(`${sessionPath(id)}/undo_rewind`, request);
    return { version: number(data, "version"), messages: objects(data["messages"]).map(readMessage) };
  }

  /** Yield the events of a task after a place, or the task first. */
  async *subscribe(agent: string, taskId: string, cursor: string, request: Request): AsyncGenerator<SseEvent> {
    const headers = { ...A2A, ...(cursor ? { "Last-Event-ID": cursor } : {}) };
    const body = this.#envelope("SubscribeToTask", { id: taskId });
    for await (const event of this.#http.events(agentPath(agent), { ...request, method: "POST", headers, body })) {
      const error = event.data.startsWith('{"jsonrpc":"2.0","id":') && object(object(parsed(event.data))?.["error"]);
      if (error) throw failedRpc(error);
      yield event;
    }
  }

  /** Yield the changes of a session, beginning with a snapshot. */
  watch(id: string, request: Request): AsyncGenerator<SseEvent> {
    return this.#named(`${sessionPath(id)}/watch`, request);
  }

  /** Yield the log of a task after a place, then what is added, until the task has ended. */
  async *events(taskId: string, after = "", signal?: AbortSignal): AsyncGenerator<LogEvent> {
    const headers: Record<string, string> = after ? { "Last-Event-ID": after } : {};
    for await (const { id, data } of this.#named(`${taskPath(taskId)}/events`, { headers, signal })) {
      const body = object(parsed(data)) ?? {};
      yield {
        cursor: id ?? "",
        generation: number(body, "generation"),
        time: text(body, "time"),
        attempt: number(body, "attempt"),
        actor: text(body, "actor"),
        kind: text(body, "kind"),
        event: body["event"] ?? null,
        traceId: text(body, "traceId"),
      };
    }
  }

  async *#named(path: string, request: Request): AsyncGenerator<SseEvent> {
    for await (const event of this.#http.events(path, request)) {
      if (event.event === "error") {
        const body = object(parsed(event.data)) ?? {};
        throw failedHttp(body["retryable"] === true ? 503 : 400, body);
      }
      yield event;
    }
  }

  async #rpc(agent: string, method: string, args: Json, headers: Request["headers"], timeout?: number): Promise<unknown> {
    const body = this.#envelope(method, args);
    const request = { method: "POST", headers: { ...A2A, ...headers }, body, ...(timeout ? { timeout } : {}) };
    const { data } = await this.#http.json(agentPath(agent), request);
    const response = object(data) ?? {};
    const error = object(response["error"]);
    if (error) throw failedRpc(error);
    return response["result"];
  }

  #envelope(method: string, params: Json): Json {
    return { jsonrpc: "2.0", id: ++this.#calls, method, params };
  }

  async #data(path: string, request: Request = {}): Promise<Json> {
    return object(unwrap((await this.#http.json(path, request)).data)) ?? {};
  }
}

function unwrap(data: Answer["data"]): unknown {
  return object(data)?.["data"];
}

/** Return the path of an agent's JSON-RPC below the root; without a name, of the default agent. */
export function agentPath(agent: string): string {
  return agent ? `agents/${encodeURIComponent(agent)}` : "";
}

/** Return the path of a session below the root. */
export function sessionPath(id: string): string {
  return `api/sessions/${encodeURIComponent(id)}`;
}

/** Return the path of a task below the root. */
export function taskPath(id: string): string {
  return `api/tasks/${encodeURIComponent(id)}`;
}

function params(values: Readonly<Record<string, string>>): URLSearchParams {
  return new URLSearchParams(Object.entries(values).filter(([, value]) => value));
}

function readRow(row: Json): SessionRow {
  return {
    id: text(row, "id"),
    title: text(row, "title") || text(row, "name"),
    agent: text(row, "agent"),
    version: number(row, "version"),
    lastState: stateOf(row["lastState"]),
    paused: row["paused"] === true,
    taskCount: number(row, "taskCount"),
    updatedAt: text(row, "updatedAt") || text(row, "updated_at"),
  };
}
