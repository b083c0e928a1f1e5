/** One record: its JSON, and how to get it again. */

import { useMemo } from "preact/hooks";
import { agentPath, sessionPath, taskPath } from "../../model/api";
import { object } from "../../model/json";
import { type Call, curl } from "../../model/snippets";
import type { SessionView, WireRecord } from "../../model/view";
import { ROOT, address, chat, config } from "../../state";
import { strings } from "../../strings";
import { Act } from "../controls";
import { copy } from "../copy";
import { IconButton } from "../icons";

const MOST = 200_000;

/** Show a record. `log`: it is of a task's log, and has an address. */
export function RecordDetails(props: { record: WireRecord; log: boolean; open: SessionView; close: () => void }) {
  const { record, log, open, close } = props;
  const json = useMemo(() => JSON.stringify(record.body, null, 2) ?? "", [record]);
  const command = () => curl(callOf(record, open), config.value?.auth.required ?? false);
  const link = () => address(chat(open.id, { task: record.taskId, event: String(record.number) }));
  return (
    <section class="record" aria-label={strings.panel.record(record.number)}>
      <header>
        <h2>{strings.panel.record(record.number)}</h2>
        <small>{[record.kind, record.cursor].filter(Boolean).join(" · ")}</small>
        <IconButton icon="close" label={strings.panel.closeRecord} size={16} onClick={close} />
      </header>
      <div class="acts">
        <Act label={strings.panel.copyJson} act={() => void copy(json)} />
        <Act label={strings.panel.copyCurl} act={() => void copy(command())} />
        {log && <Act label={strings.chat.copyLink} act={() => void copy(link())} />}
      </div>
      <pre tabIndex={0} dir="ltr">{json.length > MOST ? `${json.slice(0, MOST)}\n${strings.panel.cutRecord}` : json}</pre>
    </section>
  );
}

/** Return the request that a record was, or one that brings it again. */
function callOf({ kind, body, taskId, messageId, cursor }: WireRecord, open: SessionView): Call {
  const path = (of: string): string => new URL(of, ROOT).href;
  const given = object(body) ?? {};
  if (kind === "request") {
    const headers = { "A2A-Version": "1.0", ...(messageId && { "Idempotency-Key": messageId }) };
    const agent = open.tasks.find(({ id }) => id === taskId)?.agent || open.agent;
    return { url: path(agentPath(agent)), headers, body: { jsonrpc: "2.0", id: 1, ...given } };
  }
  const [, incarnation, generation] = /^(.*)-(\d+)$/.exec(cursor) ?? [];
  if (incarnation) return { url: path(`${taskPath(taskId)}/events`), headers: { "Last-Event-ID": `${incarnation}-${Number(generation) - 1}` } };
  return { url: path(taskId ? taskPath(taskId) : `${sessionPath(open.id)}/messages`) };
}
