/** The routes of a gateway that the page uses. Every method raises Failed. */

import { type Event, read, readMessage, readPiece } from "./events";
import { failedHttp, failedRpc, failureOf } from "./failures";
import { Http, type Request, type SseEvent } from "./http";
import { type Json, object, parsed } from "./json";
import { OpsApi, type OpsEvent } from "./ops";
import { credential } from "./outgoing";
import { readTaskInfos } from "./tasks";
import { stateOf } from "./states";
import type { Message, State } from "./view";

type Texts<Name extends string> = Readonly<Record<Name, string>>;

export interface Config extends Texts<"product" | "version"> {
  readonly auth: { readonly required: boolean; readonly schemes: readonly string[] };
  readonly caller: (Texts<"user" | "tenant"> & { readonly mayWrite: boolean; readonly mayOperate: boolean }) | null;
  readonly limits: { readonly body: number };
  readonly agents: readonly (Texts<"name" | "title" | "description"> & { readonly isDefault: boolean })[];
  readonly features: { readonly ops: boolean; readonly import: boolean };
}

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

export type SessionRow = Texts<"id" | "title" | "agent" | "updatedAt"> &
  Readonly<{ version: number; lastState: State; paused?: boolean; taskCount: number }>;

/** An event of a log, with its place. It has the A2A 1.0 event, or null for kinds that show nothing. */
export type LogEvent = Omit<OpsEvent, "fence"> & Texts<"cursor">;

export interface SendOptions {
  /** The idempotency key. */
  readonly key: string;
  /** The version that the session must have. */
  readonly version?: number;
  /** A credential for the agent, kept and shown nowhere. */
  readonly secret?: string | undefined;
}

/** A page of sessions; without any it has no `data`. `name` is the title of those that no message has named. */
type Listed = Readonly<{ data?: readonly (SessionRow & Texts<"name">)[]; next_page_token?: string }>;

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

  readonly config = () => this.#http.data<Config>("api/ui-config");

  /** Return whether the server answers. */
  readonly reachable = () =>
    this.#http.json("healthz", { timeout: 5_000 }).then(() => true, (error: unknown) => failureOf(error).status !== 0);

  readonly agent = (name: string) => this.#http.data<Agent>(`api/agents/${encodeURIComponent(name)}`);

  async sessions({ q = "", pageToken = "", limit = 50 } = {}): Promise<{ rows: SessionRow[]; next: string }> {
    const query = params({ q, page_token: pageToken, limit: String(limit) });
    const { data = [], next_page_token: next = "" } = (await this.#http.json<Listed>(`api/sessions?${query}`)).data;
    return { rows: data.map((row) => ({ ...row, title: row.title || row.name, lastState: stateOf(row.lastState) })), next };
  }

  async session(id: string) {
    type Found = Texts<"title" | "agent"> & Readonly<{ version: number; canUndo: boolean }>;
    return (await this.#http.data<{ session: Found }>(`${sessionPath(id)}?limit=1`)).session;
  }

  readonly rename = (id: string, name: string) => this.#http.json(sessionPath(id), { method: "PATCH", body: { name } });

  readonly deleteSession = (id: string) => this.#http.json(sessionPath(id), { method: "DELETE" });

  async messages(id: string, before = "", limit = 100) {
    const query = params({ before, limit: String(limit) });
    const page = await this.#http.data<{ messages: Json[]; before: string | null }>(`${sessionPath(id)}/messages?${query}`);
    return { ...page, messages: page.messages.map(readMessage) };
  }

  readonly taskInfos = async (id: string) => readTaskInfos(await this.#http.data(`${sessionPath(id)}/task-infos`));

  readonly task = async (id: string) => read("task", await this.#http.data<Json>(taskPath(id)));

  /** Return the artifacts of a task, each with the number of its versions. */
  async artifacts(taskId: string) {
    const found = await this.#http.data<readonly (Json & { versions?: number })[] | undefined>(`${taskPath(taskId)}/artifacts`);
    return (found ?? []).map((one) => ({ piece: readPiece(one), versions: one.versions || 1 }));
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
    const request = { method: "POST", body: file, headers: { "Content-Type": "application/x-ndjson" }, timeout: 600_000 };
    return (await this.#http.data<{ session: Texts<"id"> }>(`api/sessions/import?${params({ id })}`, request)).session.id;
  }

  /** Send a message with one effect however often it is repeated under one key. Return what it made, as it was on the wire. */
  send(agent: string, message: Json, options: SendOptions): Promise<unknown> {
    const headers = { "Idempotency-Key": options.key, ...(options.version && { "If-Match": `"${options.version}"` }) };
    const params = { message, configuration: { returnImmediately: true }, ...credential(options.secret) };
    return this.#rpc(agent, "SendMessage", params, headers, SEND_TIMEOUT);
  }

  /** Cancel a task and return it. */
  async cancel(agent: string, taskId: string): Promise<Event> {
    return read("task", object(await this.#rpc(agent, "CancelTask", { id: taskId }, {})) ?? {});
  }

  /** Undo the newest rewind, with one effect however often it is repeated under one key. */
  async undo(id: string, key: string): Promise<Message[]> {
    const request = { method: "POST", body: {}, headers: { "Idempotency-Key": key } };
    return (await this.#http.data<{ messages: Json[] }>(`${sessionPath(id)}/undo_rewind`, request)).messages.map(readMessage);
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

  /** Yield the log of a task after a place, then what is added, until the task has ended or says nothing for `idle` ms. */
  async *events(taskId: string, cursor: string, signal: AbortSignal, idle: number): AsyncGenerator<SseEvent> {
    const headers: Record<string, string> = cursor ? { "Last-Event-ID": cursor } : {};
    yield* this.#named(`${taskPath(taskId)}/events`, { headers, signal }, idle);
  }

  async *#named(path: string, request: Request, idle?: number): AsyncGenerator<SseEvent> {
    for await (const event of this.#http.events(path, request, idle)) {
      const failure = event.event === "error" && (object(parsed(event.data)) ?? {});
      if (failure) throw failedHttp(failure["retryable"] === true ? 503 : 400, failure);
      yield event;
    }
  }

  async #rpc(agent: string, method: string, args: Json, headers: Request["headers"], timeout?: number): Promise<unknown> {
    const request = { method: "POST", headers: { ...A2A, ...headers }, body: this.#envelope(method, args), timeout };
    type Response = { result?: unknown; error?: Json } | null;
    const { result, error } = (await this.#http.json<Response>(agentPath(agent), request)).data ?? {};
    if (error) throw failedRpc(error);
    return result;
  }

  #envelope(method: string, params: Json): Json {
    return { jsonrpc: "2.0", id: ++this.#calls, method, params };
  }
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
