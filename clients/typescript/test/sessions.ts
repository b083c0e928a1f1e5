/** The functions for sessions. It does one call after the other, as they come in as lines of JSON, and prints each answer. */

import { createInterface } from "node:readline";
import { Failure, Sessions } from "../src/index.ts";

const [url = ""] = process.argv.slice(2);
const sessions = new Sessions({ url, user: "ann", giveUpAfter: 5 });
const say = (value: unknown): boolean => process.stdout.write(`${JSON.stringify(value ?? null)}\n`);

/** Print the changes of a session until it is deleted. */
async function watch(id: string): Promise<void> {
  for await (const change of sessions.watch(id)) say(change);
  say({ name: "end" });
}

for await (const line of createInterface({ input: process.stdin })) {
  const [method, ...given] = JSON.parse(line) as [keyof Sessions, ...unknown[]];
  try {
    if (method === "watch") await watch(String(given[0]));
    else say(await (sessions[method] as (...values: unknown[]) => Promise<unknown>)(...given));
  } catch (error) {
    const { name, message } = error as Error;
    say({ failed: name, message, ...(error instanceof Failure && { reason: error.reason, status: error.status }) });
  }
}
