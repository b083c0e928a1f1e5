/** What operators are shown, made of what the server counts and lists. */

import { afterEach, describe, expect, it, vi } from "vitest";
import { Api } from "../src/model/api";
import { type OpsTask, type Overview, lapsed, matrix, opsState, queryOf, readPlace } from "../src/model/ops";
import { gist } from "../src/model/records";

afterEach(() => vi.unstubAllGlobals());

const executor = { id: "e1", alive: true, agents: ["demo"], leases: 2, running: 2, lastSeenSeconds: 1 };
const overview: Overview = {
  tasks: [],
  queue: [],
  executors: [executor],
  uncopied: { count: 0, oldestSeconds: null },
  abandoned: { count: 0, oldestSeconds: null },
  recent: { since: "", begun: 0, ended: 0, failed: 0, durationSeconds: null, queuedSeconds: null },
  bounded: false,
  concerns: [],
};

function task(taskId: string, error = "", more: Partial<OpsTask> = {}): OpsTask {
  const at = "2026-01-01T00:00:00Z";
  return { taskId, contextId: "c", owner: "ann", agent: "demo", state: "failed", createdAt: at, statusAt: at, generation: 1, attempt: 1, maxAttempts: 3, fence: 1, copied: true, ...(error && { error }), ...more };
}

function answering(answer: (url: URL) => unknown): Api["ops"] {
  vi.stubGlobal("fetch", (input: URL) => Promise.resolve(Response.json(answer(input))));
  return new Api(new URL("http://plane.test/"), () => "").ops;
}

const place = (query: string) => readPlace(new URLSearchParams(query));

describe("the address", () => {
  it("names the same place when it is read again", () => {
    for (const query of ["", "?view=tasks", "?view=tasks&state=paused&agent=a%26b&owner=%3Cb%3E&executor=e1", "?view=tasks&state=failed"])
      expect(queryOf(place(query))).toBe(query);
  });

  it("means the list if it only has a filter, and ignores what is unknown", () => {
    expect(place("executor=e1").view).toBe("tasks");
    expect(place("state=nonsense&view=nowhere")).toEqual(place(""));
    expect(place("state=failed")).toEqual(place("view=tasks&state=failed"));
  });
});

describe("the overview", () => {
  it("counts tasks by agent and state, the paused ones by themselves", () => {
    const tasks = [
      { agent: "b", state: "working", count: 2 },
      { agent: "b", state: "working", paused: true, count: 3 },
      { agent: "a", state: "failed", count: 4 },
      { agent: "a", state: "failed", count: 1 },
    ];
    const rows = matrix({ ...overview, tasks });
    expect(rows.map(({ agent }) => agent)).toEqual(["a", "b", null]);
    expect(rows[0]!.counts.failed).toBe(5);
    expect(rows[1]!.counts).toMatchObject({ working: 2, paused: 3, failed: 0 });
    expect(rows[2]!.counts).toMatchObject({ working: 2, paused: 3, failed: 5 });
    expect(matrix({ ...overview, tasks: tasks.slice(2) })).toHaveLength(1);
  });
});

describe("a task and its log", () => {
  it("shows a paused task as paused", () => {
    expect(opsState({ state: "working", paused: true })).toBe("paused");
    expect(opsState({ state: "cancelled" })).toBe("cancelled");
  });

  it("tells a rejected task from a failed one", () => {
    expect(opsState({ state: "failed", rejected: true })).toBe("rejected");
    const tasks = [{ agent: "a", state: "failed", count: 5 }, { agent: "a", state: "failed", rejected: true, count: 2 }];
    expect(matrix({ ...overview, tasks })[0]!.counts).toMatchObject({ failed: 5, rejected: 2 });
  });

  it("tells the state and the words of an event", () => {
    const message = { messageId: "m", role: "ROLE_AGENT", parts: [{ text: "Done" }] };
    const said = (body: unknown) => gist({ body });
    expect(said({ statusUpdate: { taskId: "t", status: { state: "TASK_STATE_FAILED", message } } })).toBe("failed Done");
    expect(said({ artifactUpdate: { taskId: "t", artifact: { artifactId: "a", name: "Plan", parts: [{ text: "x" }] } } })).toBe("Plan x");
    expect(said({ message })).toBe("Done");
  });

  it("is read page by page until there is enough, and says whether there is more", async () => {
    const asked: string[] = [];
    const pages = ["second", "third", ""];
    const api = answering((url) => {
      asked.push(url.search);
      return { data: [task(String(asked.length))], next_page_token: pages[asked.length - 1] };
    });
    const first = await api.tasks({ state: "failed", owner: "" }, 2);
    expect(first.tasks.map(({ taskId }) => taskId)).toEqual(["1", "2"]);
    expect(first.more).toBe(true);
    expect(asked).toEqual(["?state=failed&limit=100", "?state=failed&limit=100&page_token=second"]);
  });

  it("has lost its executor once its lease has run out", () => {
    const held = task("1", "", { leaseExpiresAt: "2026-01-01T00:00:10Z", state: "working" });
    expect(lapsed(held, Date.UTC(2026, 0, 1, 0, 0, 5))).toBe(false);
    expect(lapsed(held, Date.UTC(2026, 0, 1, 0, 0, 15))).toBe(true);
    expect(lapsed(task("2"), Infinity)).toBe(false);
  });
});
