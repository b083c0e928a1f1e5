/** What older pages left in a browser, and browsers that keep nothing (M10, scenario 38). */

import { describe, expect, it } from "vitest";
import { Stored } from "../src/model/stored";
import { TERMINAL } from "../src/model/tasks";

/** A storage as browsers have it; `full`: it takes nothing more. */
class Memory implements Storage {
  readonly entries = new Map<string, string>();
  full = false;
  [name: string]: unknown;

  get length(): number {
    return this.entries.size;
  }
  clear(): void {
    this.entries.clear();
  }
  getItem(key: string): string | null {
    return this.entries.get(key) ?? null;
  }
  key(index: number): string | null {
    return [...this.entries.keys()][index] ?? null;
  }
  removeItem(key: string): void {
    this.entries.delete(key);
  }
  setItem(key: string, value: string): void {
    if (this.full) throw new DOMException("full", "QuotaExceededError");
    this.entries.set(key, value);
  }
}

function holding(session: unknown): Stored {
  const storage = new Memory();
  storage.setItem("taskplane.session", typeof session === "string" ? session : JSON.stringify(session));
  return new Stored(() => storage);
}

const states = (stored: Stored) => stored.last()?.tasks.map((task) => [task.id, task.state]);

describe("the session that was open last", () => {
  it("comes back as it was kept", () => {
    const stored = new Stored(() => storage);
    const storage = new Memory();
    const info = { taskId: "t1", state: "working", paused: true, createdAt: "2026-01-01T00:00:00Z", changes: [{ state: "pending", at: "" }] };
    const kept = holding({ contextId: "c", agentEndpoint: "/agents/demo", tasks: [info] }).last();
    if (kept) stored.keepLast(kept);
    expect(stored.last()).toEqual(kept);
    expect(kept?.tasks[0]).toMatchObject({ id: "t1", state: "input-required", createdAt: "2026-01-01T00:00:00Z" });
  });

  it("may have been written by a page that knew one task for each session, or none", () => {
    expect(states(holding({ contextId: "c", taskId: "t1", state: "running" }))).toEqual([["t1", "working"]]);
    expect(states(holding({ contextId: "c" }))).toEqual([]);
    expect(states(holding({ contextId: "c", tasks: [{ state: "working" }, null, 7, { taskId: "t2", state: "success" }] }))).toEqual([["t2", "completed"]]);
  });

  it("tells which of its tasks has not ended", () => {
    const tasks = [{ taskId: "t1", state: "working" }, { taskId: "t2", state: "failed" }];
    expect(holding({ contextId: "c", tasks }).last()?.tasks.findLast(({ state }) => !TERMINAL.has(state))?.id).toBe("t1");
  });

  it.each(["{not json", "null", "[]", "7", '"text"', "{}", '{"contextId":{}}'])("is none if what is stored is %s", (stored) => {
    expect(holding(stored).last()).toBeNull();
  });
});

describe("drafts", () => {
  it("are kept for each session until they are emptied", () => {
    const storage = new Memory();
    new Stored(() => storage).set("c", "half a thought");
    expect(new Stored(() => storage).get("c")).toBe("half a thought");
    expect(new Stored(() => storage).get("d")).toBe("");
    new Stored(() => storage).set("c", "");
    expect(storage.length).toBe(0);
  });

  it("are not lost while the page lives though storage is full", () => {
    const storage = new Memory();
    const stored = new Stored(() => storage);
    stored.set("c", "before");
    storage.full = true;
    stored.set("c", "after");
    expect(stored.get("c")).toBe("after");
    storage.full = false;
    stored.set("c", "later");
    expect([stored.get("c"), storage.getItem("c")]).toEqual(["later", "later"]);
  });

  it("are not lost while the page lives though storage is blocked", () => {
    const stored = new Stored(() => {
      throw new DOMException("blocked", "SecurityError");
    });
    stored.set("c", "half a thought");
    expect([stored.get("c"), stored.last()]).toEqual(["half a thought", null]);
  });
});
