/** Everything that this tab has sent and received, or the log of a task, as it was on the wire. */

import { useState } from "preact/hooks";
import { agentPath, sessionPath, taskPath } from "../../model/api";
import { classify } from "../../model/events";
import { object } from "../../model/json";
import { type Call, sending } from "../../model/snippets";
import type { SessionView, TaskInfo, WireRecord } from "../../model/view";
import { ROOT, address, chat, route, selected, view } from "../../state";
import { strings } from "../../strings";
import { Choice } from "../controls";
import { Inspector } from "./inspector";
import { useRecords } from "./records";
import { titles } from "./tasks";

const MOST_LOGS = 100;

/** Show the records of the open session. What is selected, a task or a message, is looked up in the log of its task. */
export function Events() {
  const open = view.value!;
  const given = lookUp(open);
  return <Shown key={[open.id, ...Object.values(given)].join(" ")} open={open} {...given} />;
}

function lookUp(open: SessionView): { source: string; about: string; event: number } {
  const at = route.value;
  const linked = at.event ? at.task || open.tasks.at(-1)?.id : "";
  const chosen = selected.value || linked;
  const event = chosen === linked ? Number(at.event) || 0 : 0;
  const row = open.rows.find((one) => one.kind === "message" && one.message.id === chosen);
  if (row?.kind === "message") return { source: row.message.taskId, about: row.message.id, event: 0 };
  return { source: open.tasks.find(({ id }) => id === chosen)?.id ?? "", about: "", event };
}

function Shown({ open, source: first, ...given }: { open: SessionView; source: string; about: string; event: number }) {
  const [source, setSource] = useState(first);
  const called = ({ id }: TaskInfo) => [id, strings.panel.logOf(titles.value.get(id) || id)] as const;
  const logs = open.tasks.slice(-MOST_LOGS).reverse().map(called);
  const link = ({ taskId, number }: WireRecord) => address(chat(open.id, { task: taskId, event: String(number) }));
  return (
    <Inspector key={source} {...useRecords(source)} {...(source === first && given)}
      call={(record) => callOf(record, open)} link={source ? link : undefined}>
      <Choice label={strings.panel.from} value={source} options={[["", strings.panel.live], ...logs]} act={setSource} />
    </Inspector>
  );
}

/** Return the request that a record was, one that sends anew what the user said in it, or one that brings it again. */
function callOf({ kind, body, taskId, messageId, cursor }: WireRecord, open: SessionView): Call {
  const path = (of: string): string => new URL(of, ROOT).href;
  const given = object(body) ?? {};
  const url = path(agentPath(open.tasks.find(({ id }) => id === taskId)?.agent || open.agent));
  if (kind === "request") {
    const headers = { "A2A-Version": "1.0", ...(messageId && { "Idempotency-Key": messageId }) };
    return { url, headers, body: { jsonrpc: "2.0", id: 1, ...given } };
  }
  const { history, message } = classify(given["event"]);
  const said = message ?? history[0];
  if (said?.role === "user") return sending(url, { messageId: `${said.id}-again`, contextId: open.id, parts: said.parts });
  const [, incarnation, generation] = /^(.*)-(\d+)$/.exec(cursor) ?? [];
  if (incarnation) return { url: path(`${taskPath(taskId)}/events`), headers: { "Last-Event-ID": `${incarnation}-${Number(generation) - 1}` } };
  return { url: path(taskId ? taskPath(taskId) : `${sessionPath(open.id)}/messages`) };
}
