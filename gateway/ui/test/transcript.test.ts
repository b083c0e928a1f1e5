import { expect, test } from "vitest";
import { readMessage } from "../src/model/events";
import { document, markdown } from "../src/model/transcript";
import { readTaskInfo } from "../src/model/tasks";
import type { TaskInfo } from "../src/model/view";
import { strings } from "../src/strings";

const WORDS = { ...strings.share.transcript, states: strings.states };
let count = 0;
const said = (role: string, parts: object[], more: object = {}) => readMessage({ messageId: `m${++count}`, role, taskId: "t", parts, ...more });
const task = (given: object) => readTaskInfo({ taskId: "t", state: "completed", ...given }) as TaskInfo;
const AT = { metadata: { "taskplane.dev/time": "2026-11-25T02:08:42.75Z" } };

test("a transcript tells who said what and when, and leaves out progress and pieces", () => {
  const messages = [
    said("ROLE_USER", [{ text: "Hello\n" }], AT),
    said("ROLE_AGENT", [{ text: "Thinking" }], { metadata: { kind: "status-message" } }),
    said("ROLE_AGENT", [{ text: "Hel" }], { metadata: { kagent_adk_partial: true } }),
    said("ROLE_AGENT", [{ text: "Hello **you**" }]),
  ];
  expect(markdown({ title: "A\ntitle", agent: "demo", messages, tasks: [task({})], artifacts: [] }, WORDS)).toBe(
    "# A title\n\n## You · 2026-11-25 02:08 UTC\n\nHello\n\n## demo\n\nHello **you**\n",
  );
});

test("tools, files, data and artifacts are named, and how a task ended is told once", () => {
  const messages = [
    said("ROLE_AGENT", [
      { data: { id: "1", name: "lookup", args: { code: "```" } }, metadata: { kagent_type: "function_call" } },
      { raw: "AAAA", filename: "a.png" },
      { data: [1] },
    ]),
    said("ROLE_AGENT", [{ text: "No quota." }]),
  ];
  const artifacts = [{ taskId: "t", id: "a", name: "Report", description: "", versions: [] }];
  const tasks = [task({ state: "failed", error: "No quota." })];
  const text = markdown({ title: "T", agent: "demo", messages, tasks, artifacts }, WORDS);
  expect(text).toContain('> Tool: lookup\n\n````json\n{\n  "code": "```"\n}\n````');
  expect(text).toContain("> File: a.png\n\n```json\n[\n  1\n]\n```");
  expect(text).toMatch(/> Artifact: Report\n\n> Failed: No quota\.\n$/);
  expect(text.match(/No quota/g)).toHaveLength(1);
});

test("an export becomes one JSON document, each event with its task", () => {
  const lines = [
    { type: "header", format: "taskplane-session", version: 1, session: { contextId: "s" } },
    { type: "entry", entry: { id: "e" } },
    { type: "task", task: { id: "t1" } },
    { type: "event", event: { n: 1 } },
    { type: "task", task: { id: "t2" } },
    { type: "event", event: { n: 2 } },
    { type: "end", entries: 1 },
  ];
  expect(JSON.parse(document(lines.map((line) => JSON.stringify(line)).join("\n")))).toEqual({
    format: "taskplane-session",
    version: 1,
    session: { contextId: "s" },
    entries: [{ id: "e" }],
    tasks: [{ id: "t1", events: [{ n: 1 }] }, { id: "t2", events: [{ n: 2 }] }],
  });
});
