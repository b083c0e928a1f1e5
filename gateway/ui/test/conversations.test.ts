/** The display rules, held to the same recorded streams as the command-line client (tests/cases/conversations.json). */

import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { Conversation } from "../src/model/conversation";
import { INTERRUPTED, classify, read, readMessage, toolOf } from "../src/model/events";
import { failureOf } from "../src/model/http";
import type { Json } from "../src/model/json";
import { TERMINAL, readTaskInfos } from "../src/model/tasks";

interface Step {
  event?: unknown;
  answersRewind?: boolean;
  load?: Json[];
  say?: Json;
  unsay?: string;
  rewind?: string;
  gives?: string;
  refused?: string;
  restore?: boolean;
  rewound?: boolean;
  undo?: { messages: Json[]; tasks: Json[] };
  expect?: Json;
}

interface Case {
  name: string;
  requirement: string;
  steps: Step[];
  expected: Json;
}

const file = new URL("../../../tests/cases/conversations.json", import.meta.url);
const { cases } = JSON.parse(readFileSync(file, "utf8")) as { cases: Case[] };

describe("recorded streams", () => {
  it.each(cases)("$requirement: $name", ({ steps, expected }) => {
    const conversation = new Conversation("c");
    for (const step of steps) take(conversation, step);
    expect(seen(conversation, expected)).toEqual(expected);
  });
});

function take(conversation: Conversation, step: Step): void {
  if ("event" in step) conversation.apply(classify(step.event), step.answersRewind);
  else if (step.load) step.load.forEach((task) => conversation.apply(read("task", task)));
  else if (step.say) conversation.say(readMessage(step.say));
  else if (step.unsay) conversation.unsay(step.unsay);
  else if (step.rewind && step.refused) expect(refusal(() => conversation.rewind(step.rewind ?? ""))).toBe(step.refused);
  else if (step.rewind) expect(conversation.rewind(step.rewind)?.text ?? "").toBe(step.gives);
  else if (step.restore) conversation.restore();
  else if (step.rewound) conversation.rewound();
  else if (step.undo) conversation.reload(step.undo.messages.map(readMessage), false, readTaskInfos(step.undo.tasks), () => false);
  else if (step.expect) expect(seen(conversation, step.expect)).toEqual(step.expect);
  else throw new Error(`an unknown step: ${JSON.stringify(step)}`);
}

function refusal(act: () => unknown): string {
  try {
    act();
  } catch (error) {
    return failureOf(error).code;
  }
  return "";
}

function seen(conversation: Conversation, expected: Json): Json {
  const { messages, artifacts, taskList: tasks, live, progress } = conversation;
  const tools = messages.flatMap((message) => message.parts.map(toolOf)).filter((tool) => tool !== null);
  const changes = tasks.map((task) => [task.id, task.changes.map((change) => change.state)] as const);
  const wanted = Object.keys((expected["changes"] as object | undefined) ?? {});
  const everything: Json = {
    messages: messages.map((message) => `${message.role} ${message.id}: ${message.text}`),
    interrupted: messages.filter((message) => message.metadata[INTERRUPTED] === true).map((message) => message.id),
    tools: tools.map((tool) => `${tool.called ? "call" : "result"} ${tool.id} ${tool.name}`),
    live: Object.fromEntries([...live].map(([task, message]) => [task, `${message.id}: ${message.text}`])),
    progress: Object.fromEntries(progress),
    artifacts: Object.fromEntries(
      artifacts.map(({ taskId, id, versions }) => [
        `${taskId}/${id}`,
        (versions.at(-1)?.parts ?? []).map((part) => part.text ?? "").join(""),
      ]),
    ),
    versions: Object.fromEntries(artifacts.map(({ taskId, id, versions }) => [`${taskId}/${id}`, versions.length])),
    tasks: tasks.map((task) => `${task.id} ${task.state}`),
    errors: Object.fromEntries(tasks.filter((task) => task.error).map((task) => [task.id, task.error])),
    changes: Object.fromEntries(changes.filter(([id]) => wanted.includes(id))),
    incomplete: tasks.findLast(({ state }) => !TERMINAL.has(state))?.id ?? "",
    continuation: { taskId: "", referenceTaskIds: [], ...conversation.nextMessage() },
    turns: [...new Set(messages.map(({ role, invocationId }) => (role === "user" ? invocationId : "")))].filter(Boolean),
    rewinding: conversation.cut !== null,
    notice: conversation.notice,
    unknown: conversation.unknown,
  };
  return Object.fromEntries(Object.keys(expected).map((key) => [key, everything[key]]));
}
