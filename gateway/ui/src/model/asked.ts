/** What data asks for: the actions that wait for the user, in the shapes that frameworks give their questions. */

import { type Json, object, objects } from "./json";

const NAMES = ["action", "name", "tool", "tool_name"];
const ARGUMENTS = ["args", "arguments", "parameters", "input"];
const WORDS = ["description", "question", "message", "prompt", "instruction", "hint"];

/** Return the actions that data asks for, each with its name and words, which may be empty, and its arguments, if it has any. */
export function askedIn(data: unknown) {
  const outer = object(data) ?? {};
  // A2A 0.3 has a list as the `value` of an object.
  const lists = [outer["action_requests"], outer["calls"], outer["action_request"] && [outer], data, outer["value"], [outer]];
  return (lists.map(objects).find((list) => list.length) ?? []).map(read).filter(({ name, words }) => name || words);
}

function read(item: Json) {
  const all = { ...item, ...object(item["action_request"]), ...object(object(item["args"])?.["originalFunctionCall"]) };
  const text = (keys: string[]) => keys.map((key) => all[key]).find((value) => value && typeof value === "string") as string ?? "";
  return { name: text(NAMES), words: text(WORDS), args: ARGUMENTS.map((key) => all[key]).find((value) => value !== undefined) };
}
