/** Long sessions stay cheap: the work for an event does not grow with what is shown. */

import { describe, expect, it } from "vitest";
import { Conversation } from "../src/model/conversation";
import { classify, readMessage } from "../src/model/events";
import { Rows, type Shown } from "../src/model/rows";
import type { Message } from "../src/model/view";

const NOTHING = { hasOlder: false, rewinding: false, paused: null };

function history(count: number): Message[] {
  const parts = (index: number) => [{ text: `message ${index}\n\n\`\`\`ts\nconst x = ${index};\n\`\`\`` }];
  return Array.from({ length: count }, (_, index) =>
    readMessage({
      messageId: `m${index}`,
      taskId: `t${Math.floor(index / 2)}`,
      role: index % 2 ? "agent" : "user",
      parts: parts(index),
      metadata: { kagent_invocation_id: `i${Math.floor(index / 2)}` },
    }),
  );
}

function shown(conversation: Conversation): Shown {
  const { messages, live, artifactsOf, taskList: tasks } = conversation;
  return { messages, live, artifacts: artifactsOf.of, tasks, ...NOTHING };
}

function piece(index: number): unknown {
  const message = { messageId: "live", role: "ROLE_AGENT", parts: [{ text: `word${index} ` }], metadata: { kagent_adk_partial: true } };
  return { statusUpdate: { taskId: "live", contextId: "c", status: { state: "TASK_STATE_WORKING", message } } };
}

function timed(what: string, act: () => void): void {
  const began = process.cpuUsage();
  act();
  const { user, system } = process.cpuUsage(began);
  console.log(`${what}: ${Math.round((user + system) / 1_000)} ms`);
}

describe("10,000 messages and 20,000 pieces of a text", () => {
  it("are shown with little work, and only the row that grows changes (scenario 25, 28)", () => {
    const conversation = new Conversation("c");
    const rows = new Rows();
    const messages = history(10_000);
    timed("10,000 messages loaded", () => conversation.reload(messages, false, [], () => false));
    timed("their rows", () => rows.of(shown(conversation)));
    const before = rows.of(shown(conversation));
    conversation.apply(classify({ task: { id: "live", contextId: "c", status: { state: "working" }, history: [] } }));
    timed("20,000 pieces applied", () => {
      for (let index = 0; index < 20_000; index++) conversation.apply(classify(piece(index)));
    });
    let paints = 0;
    timed("20,000 pieces applied and painted 600 times", () => {
      for (let index = 0; index < 20_000; index++) {
        conversation.apply(classify(piece(index)));
        if (index % 33 !== 0) continue;
        paints++;
        rows.of(shown(conversation));
      }
    });
    const after = rows.of(shown(conversation));
    expect(rows.of(shown(conversation)), "nothing has changed").toBe(after);
    expect(paints).toBe(607);
    expect(after).toHaveLength(10_001);
    expect(after.slice(0, -1).every((row, index) => row === before[index])).toBe(true);
    expect(after.at(-1)).toMatchObject({ kind: "message", live: true });
    timed("a rewind and its answer of 5,000 messages", () => {
      conversation.rewind("i2500");
      const task = { id: "c", contextId: "c", status: { state: "completed" }, history: [] };
      conversation.apply({ ...(classify({ task }) as { kind: "task" } & object), history: messages.slice(0, 5_000) } as never, true);
      rows.of(shown(conversation));
    });
    expect(conversation.messages).toHaveLength(5_000);
  }, 60_000);
});
