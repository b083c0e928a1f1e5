/** A conversation as a document, to read elsewhere. */

import { toolOf } from "./events";
import { type Json, object, parsed, text } from "./json";
import type { Artifact, Message, Part, TaskInfo } from "./view";

export interface Told {
  readonly title: string;
  readonly agent: string;
  readonly messages: readonly Message[];
  readonly tasks: readonly TaskInfo[];
  readonly artifacts: readonly Artifact[];
}

/** The words of a transcript that are not of the conversation. */
export interface Words {
  readonly you: string;
  readonly tool: (name: string) => string;
  readonly file: (name: string) => string;
  readonly artifact: (name: string) => string;
  readonly ended: (state: string, reason: string) => string;
  readonly states: Readonly<Record<string, string>>;
}

/** Return a conversation as Markdown: who said what and when, calls of tools, artifacts, and how tasks ended. */
export function markdown({ title, agent, messages, tasks, artifacts }: Told, words: Words): string {
  const said = messages.filter((message) => !message.partial && !message.progress);
  const last = new Map(said.map((message, index) => [message.taskId, index]));
  const lines = [`# ${oneLine(title)}`];
  said.forEach((message, index) => {
    const parts = message.parts.map((part) => partLines(part, words)).filter(Boolean);
    const at = message.at ? ` · ${message.at.slice(0, 16).replace("T", " ")} UTC` : "";
    const task = last.get(message.taskId) === index ? tasks.find(({ id }) => id === message.taskId) : undefined;
    const repeats = message.role === "agent" && task?.error === message.text;
    if (parts.length && !repeats) lines.push(`## ${message.role === "user" ? words.you : oneLine(agent)}${at}`, ...parts);
    if (!task) return;
    for (const one of artifacts) if (one.taskId === task.id) lines.push(`> ${words.artifact(oneLine(one.name || one.id))}`);
    if (["failed", "canceled", "rejected"].includes(task.state))
      lines.push(`> ${words.ended(words.states[task.state] ?? task.state, oneLine(task.error))}`);
  });
  return `${lines.join("\n\n")}\n`;
}

/** Return an exported session, which has a JSON object on each line, as one JSON document. */
export function document(exported: string): string {
  const session: { header: Json; entries: unknown[]; tasks: (Json & { events: unknown[] })[] } = { header: {}, entries: [], tasks: [] };
  for (const line of exported.split("\n")) {
    const body = object(parsed(line)) ?? {};
    const type = text(body, "type");
    if (type === "header") session.header = body;
    if (type === "entry") session.entries.push(body["entry"]);
    if (type === "task") session.tasks.push({ ...object(body["task"]), events: [] });
    if (type === "event") session.tasks.at(-1)?.events.push(body["event"]);
  }
  const { header, ...rest } = session;
  return `${JSON.stringify({ format: header["format"], version: header["version"], session: header["session"], ...rest }, null, 2)}\n`;
}

function partLines(part: Part, words: Words): string {
  const tool = toolOf(part);
  if (tool) return `> ${words.tool(oneLine(tool.name))}\n\n${fenced(JSON.stringify(tool.body ?? null, null, 2), "json")}`;
  if (part.text !== undefined) return part.text.trim();
  if (part.data !== undefined) return fenced(JSON.stringify(part.data, null, 2), "json");
  return `> ${words.file(oneLine(part.filename || part.url || part.mediaType || ""))}`;
}

/** Fence code with more backticks than it has in a row. */
function fenced(code: string, language: string): string {
  const most = Math.max(2, ...(code.match(/`+/g) ?? []).map((run) => run.length));
  const fence = "`".repeat(most + 1);
  return `${fence}${language}\n${code}\n${fence}`;
}

function oneLine(words: string): string {
  return words.replace(/\s+/g, " ").trim();
}
