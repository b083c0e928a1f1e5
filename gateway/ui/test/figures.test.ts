/** When a task said something first, by the times of the server. */

import { expect, test } from "vitest";
import { type LogEvent, isOutput } from "../src/model/records";
import { eachWithGateway, idle, said, until } from "./opened";

const place = eachWithGateway();

const firstOutput = (session: Awaited<ReturnType<typeof place.open>>) => session.view.value.tasks[0]?.firstOutputAt;

test("the first output is read from the log once it is asked for, and stays when the tasks are read again", async () => {
  const { gateway } = place;
  gateway.answer = (task) => {
    gateway.tell(task.id, "working", "Looking it up", { progress: true });
    gateway.tell(task.id, "working", "It ", { partial: true, id: "m" });
    gateway.tell(task.id, "completed", "It is 42", { id: "m" });
  };
  const session = await place.open();
  await session.send(said("hello"));
  await idle(session);
  expect(firstOutput(session)).toBeNull();
  await session.loadFirstOutput("t1");
  await until(session, () => firstOutput(session) !== null);
  expect(firstOutput(session)).toBe("2026-01-01T00:00:00.500Z");
  await session.refresh();
  expect(firstOutput(session)).toBe("2026-01-01T00:00:00.500Z");
});

test("a log that lost its beginning tells no first output", async () => {
  const session = await place.open();
  await session.send(said("hello"));
  await idle(session);
  place.gateway.kindOfFirst = "snapshot";
  await session.loadFirstOutput("t1");
  await until(session, () => firstOutput(session) === "");
});

test("what the agent said or made is output; progress, failures and messages of the user are not", () => {
  const event = (kind: string, state = "TASK_STATE_WORKING", role = "ROLE_AGENT", parts: object[] = [{ text: "x" }]): LogEvent => ({
    generation: 2, attempt: 1, time: "", actor: "", kind, event: { statusUpdate: { taskId: "t", status: { state, message: { messageId: "m", role, parts } } } },
  });
  expect(isOutput(event("status"))).toBe(true);
  expect(isOutput(event("status", "TASK_STATE_INPUT_REQUIRED"))).toBe(true);
  expect(isOutput({ ...event("artifact"), event: { artifactUpdate: { taskId: "t", artifact: {} } } })).toBe(true);
  const others = [
    event("status_text"), event("message", "TASK_STATE_SUBMITTED", "ROLE_USER"), event("status", "TASK_STATE_FAILED"),
    event("status", "TASK_STATE_REJECTED"), event("status", "TASK_STATE_WORKING", "ROLE_AGENT", []), { ...event("checkpoint"), event: null },
  ];
  expect(others.map(isOutput)).toEqual(others.map(() => false));
});
