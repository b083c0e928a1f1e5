/** One record: its JSON, and how to get it again. */

import { useMemo } from "preact/hooks";
import { agentPath } from "../../model/api";
import { object, text } from "../../model/json";
import { type Call, curl } from "../../model/snippets";
import type { SessionView, WireRecord } from "../../model/view";
import { ROOT, address, chat, config } from "../../state";
import { strings } from "../../strings";
import { copy } from "../copy";
import { fullTime } from "../format";
import { IconButton } from "../icons";

const MOST = 200_000;

/** Show a record. `log`: it is of a task's log, and has an address. */
export function RecordDetails({ record, log, open, close }: { record: WireRecord; log: boolean; open: SessionView; close: () => void }) {
  const json = useMemo(() => JSON.stringify(record.body, null, 2) ?? "", [record]);
  const link = address(chat(open.id, { task: record.taskId, event: String(record.number) }));
  return (
    <section class="record" aria-label={strings.panel.record(record.number)}>
      <header>
        <h2>{strings.panel.record(record.number)}</h2>
        <small>{[record.kind, record.cursor].filter(Boolean).join(" · ")}</small>
        <time class="sr-only">{fullTime(new Date(record.at).toISOString())}</time>
        <IconButton icon="close" label={strings.panel.closeRecord} size={16} onClick={close} />
      </header>
      <div class="acts">
        <button type="button" class="button small" onClick={() => void copy(json)}>{strings.panel.copyJson}</button>
        <button type="button" class="button small" onClick={() => void copy(curl(callOf(record, open), config.value?.auth.required ?? false))}>
          {strings.panel.copyCurl}
        </button>
        {log && <button type="button" class="button small" onClick={() => void copy(link)}>{strings.panel.copyLink}</button>}
      </div>
      <pre tabIndex={0} dir="ltr">{json.slice(0, MOST)}</pre>
      {json.length > MOST && <p class="aside">{strings.panel.cutRecord}</p>}
    </section>
  );
}

/** Return the request that a record was, or one that brings it again. */
function callOf({ kind, body, taskId, messageId, cursor }: WireRecord, open: SessionView): Call {
  const path = (of: string): string => new URL(of, ROOT).href;
  const agent = open.tasks.find(({ id }) => id === taskId)?.agent || open.agent;
  const task = `api/tasks/${encodeURIComponent(taskId)}`;
  const session = `api/sessions/${encodeURIComponent(open.id)}`;
  const given = object(body) ?? {};
  if (kind === "request") {
    // The same key has the same effect only with the same request: what every send of this page has is not in its record.
    const sends = messageId && { configuration: { returnImmediately: true } };
    const headers = { "A2A-Version": "1.0", ...(messageId && { "Idempotency-Key": messageId }) };
    const body = { jsonrpc: "2.0", id: 1, method: text(given, "method"), params: { ...object(given["params"]), ...sends } };
    return { url: path(agentPath(agent)), method: "POST", headers, body };
  }
  const [, incarnation, generation] = /^(.*)-(\d+)$/.exec(cursor) ?? [];
  const before = incarnation && { "Last-Event-ID": `${incarnation}-${Number(generation) - 1}` };
  if (before) return { url: path(`${task}/events`), headers: before };
  return { url: path(taskId ? task : open.id ? `${session}/messages` : "api/sessions") };
}
