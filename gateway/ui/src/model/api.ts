/** The routes of a gateway that the page uses. Every method raises Failed. */

import { readMessage, readPiece } from "./events";
import { Http, type Request, failed, failureOf } from "./http";
import type { Json } from "./json";
import { type OpsTask, type Overview, queryOf } from "./ops";
import type { LogEvent } from "./records";
import { readTaskInfos, stateOf } from "./tasks";
import type { State } from "./view";

type Texts<Name extends string> = Readonly<Record<Name, string>>;

export interface Config extends Texts<"product" | "version"> {
  readonly auth: { readonly required: boolean; readonly schemes: readonly string[] };
  readonly caller: (Texts<"user" | "tenant"> & Readonly<Record<"mayRead" | "mayWrite" | "mayOperate", boolean>>) | null;
  readonly limits: { readonly body: number; readonly message: number };
  /** The default one first, each with the names of its skills. */
  readonly agents: readonly (Texts<"name" | "title" | "description"> & { readonly isDefault: boolean; readonly skills: readonly string[] })[];
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

export type SessionRow = Texts<"id" | "title" | "agent" | "updatedAt"> & Readonly<{ lastState: State; paused?: boolean }>;

/** A page of a list; an empty one has no `data`. */
type Page<Row> = Readonly<{ data?: readonly Row[]; next_page_token?: string }>;

const A2A = {
  "A2A-Version": "1.0",
  "A2A-Extensions": "https://taskplane.dev/extensions/growing-text/v1",
};

export class Api extends Http {
  #calls = 0;

  readonly config = () => this.data<Config>("api/ui-config");

  /** Return whether the server answers. */
  readonly reachable = () =>
    this.json("healthz", { timeout: 5_000 }).then(() => true, (error: unknown) => failureOf(error).status !== 0);

  readonly agent = (name: string) => this.data<Agent>(`api/agents/${encodeURIComponent(name)}`);

  async sessions(query: Readonly<Record<"q" | "page_token" | "limit", string>>): Promise<{ rows: SessionRow[]; next: string }> {
    // `name` is the title of those that no message has named.
    const { data = [], next_page_token: next = "" } = await this.json<Page<SessionRow & Texts<"name">>>(`api/sessions${queryOf(query)}`);
    return { rows: data.map((row) => ({ ...row, title: row.title || row.name, lastState: stateOf(row.lastState) })), next };
  }

  async session(id: string) {
    type Found = Texts<"title" | "agent"> & Readonly<{ version: number; canUndo: boolean }>;
    return (await this.data<{ session: Found }>(`${sessionPath(id)}?limit=1`)).session;
  }

  readonly rename = (id: string, name: string) => this.json(sessionPath(id), { method: "PATCH", body: { name } });

  readonly deleteSession = (id: string) => this.json(sessionPath(id), { method: "DELETE" });

  async messages(id: string, before = "", limit = 100) {
    const query = queryOf({ before, limit: String(limit) });
    const page = await this.data<{ messages: Json[]; before: string | null }>(`${sessionPath(id)}/messages${query}`);
    return { ...page, messages: page.messages.map(readMessage) };
  }

  readonly taskInfos = async (id: string) => readTaskInfos(await this.data(`${sessionPath(id)}/task-infos`));

  readonly task = (id: string) => this.data<Json>(taskPath(id));

  /** Return the artifacts of a task, each with the number of its versions. */
  async artifacts(taskId: string) {
    const found = await this.data<readonly (Json & { versions?: number })[] | undefined>(`${taskPath(taskId)}/artifacts`);
    return (found ?? []).map((one) => ({ piece: readPiece(one), versions: one.versions || 1 }));
  }

  /** Return an artifact as a file; `version`: from 1; 0: the newest. */
  readonly artifact = (taskId: string, id: string, version = 0) =>
    this.blob(`${taskPath(taskId)}/artifacts/${encodeURIComponent(id)}${version ? `?version=${version}` : ""}`);

  /** Return a session as a file: `ndjson`, `json` or `markdown`. */
  readonly exportSession = (id: string, format: string) => this.blob(`${sessionPath(id)}/export${queryOf({ format })}`);

  /** Create the session of an exported file, under another id if one is given, and return its id. */
  async importSession(file: Blob, id = ""): Promise<string> {
    const request = { method: "POST", body: file.slice(0, file.size, "application/x-ndjson"), timeout: 600_000 };
    return (await this.data<{ session: Texts<"id"> }>(`api/sessions/import${queryOf({ id })}`, request)).session.id;
  }

  /** Undo the newest rewind, with one effect however often it is repeated under one key. */
  readonly undo = (id: string, key: string) =>
    this.json(`${sessionPath(id)}/undo_rewind`, { method: "POST", body: {}, headers: { "Idempotency-Key": key } });

  /** Yield the events of a task after a place, or the task first. */
  readonly subscribe = (agent: string, id: string, cursor: string, request: Request) =>
    this.stream(agentPath(agent), this.#a2a("SubscribeToTask", { id }, { ...request, headers: after(cursor) }));

  /** Yield the changes of a session, beginning with a snapshot. */
  readonly watch = (id: string, request: Request) => this.stream(`${sessionPath(id)}/watch`, request);

  /** Yield the log of a task after a place, then what is added, until the task has ended or says nothing for `idle` ms. */
  readonly events = (taskId: string, cursor: string, signal: AbortSignal, idle: number) =>
    this.stream(`${taskPath(taskId)}/events`, { headers: after(cursor), signal }, idle);

  /** Call a method of an agent. Return its result as it was on the wire. */
  async call(agent: string, method: string, params: Json, request: Request): Promise<unknown> {
    type Response = { result?: unknown; error?: Json } | null;
    const data = await this.json<Response>(agentPath(agent), this.#a2a(method, params, request));
    if (data?.error) throw failed(200, data);
    return data?.result;
  }

  /** What operators may do, to tasks of any owner. */
  readonly ops = {
    overview: () => this.data<Overview>("api/ops/overview"),

    /** Return so many pages of tasks, newest change of state first, and whether there may be more. */
    tasks: async (query: Readonly<Record<string, string>>, pages = 1, page_token = ""): Promise<{ tasks: OpsTask[]; more: boolean }> => {
      const path = `api/ops/tasks${queryOf({ ...query, limit: "100", page_token })}`;
      const { data = [], next_page_token: next = "" } = await this.json<Page<OpsTask>>(path);
      const rest = next && pages > 1 ? await this.ops.tasks(query, pages - 1, next) : { tasks: [], more: next !== "" };
      return { ...rest, tasks: [...data, ...rest.tasks] };
    },

    task: async (id: string) => (await this.data<{ task: OpsTask }>(`${opsPath(id)}?limit=1`)).task,

    /** Return a page of a task's log, and after which generation the next one begins; numbers may be missing. */
    events: (id: string, after: number) =>
      this.data<Readonly<{ events: readonly LogEvent[]; next_after?: number }>>(opsLogPath(id, after)),

    cancel: (id: string) => this.json(`${opsPath(id)}/cancel`, { method: "POST", body: {} }),

    delete: (id: string) => this.json(opsPath(id), { method: "DELETE" }),
  };

  #a2a(method: string, params: Json, request: Request): Request {
    const body = { jsonrpc: "2.0", id: ++this.#calls, method, params };
    return { ...request, method: "POST", headers: { ...A2A, ...request.headers }, body };
  }
}

/** Return the path of an agent's JSON-RPC below the root; without a name, of the default agent. Only sends need the agent. */
export const agentPath = (agent: string) => agent && `agents/${encodeURIComponent(agent.replaceAll("/", "__NS__"))}`;

/** Return the path of a session below the root. */
export const sessionPath = (id: string) => `api/sessions/${encodeURIComponent(id)}`;

/** Return the path of a task below the root. */
export const taskPath = (id: string) => `api/tasks/${encodeURIComponent(id)}`;

const opsPath = (id: string) => `api/ops/tasks/${encodeURIComponent(id)}`;

/** Return the path of a page of a task's log, for operators, below the root: so many events after a generation. */
export const opsLogPath = (id: string, after: number, limit = 1000) => `${opsPath(id)}/events?after=${after}&limit=${limit}`;

const after = (cursor: string): Readonly<Record<string, string>> => (cursor ? { "Last-Event-ID": cursor } : {});
