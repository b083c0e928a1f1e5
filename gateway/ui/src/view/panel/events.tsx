/** Events as they were on the wire: the inspector, which shows any of them, and those of the open session in it. */

import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { agentPath, sessionPath, taskPath } from "../../model/api";
import { classify, unknownParts } from "../../model/events";
import { failureOf } from "../../model/http";
import { object } from "../../model/json";
import { type LogEvent, Records, Sieve, UNKNOWN, type WireRecord, gist, logged } from "../../model/records";
import { type Call, curl, sending } from "../../model/snippets";
import type { SessionView } from "../../model/followed";
import type { TaskInfo } from "../../model/view";
import { ROOT, address, api, chat, config, route, selected, session, view } from "../../state";
import { strings } from "../../strings";
import { copy } from "../acts";
import { Act, Choice, IconButton, useEvery, walk } from "../controls";
import { exactTime, fullTime } from "../format";
import { Polled } from "../polled";
import { titles } from "./tasks";

const ROW = 32;
const BEYOND = 20;
/** Elements for rows, some above and more below the first one in view: each row stays in the same one while it is in view. */
const ELEMENTS = 128;
/** More of the JSON of a record is not shown. */
const MOST = 200_000;
const MOST_LOGS = 100;
const PAINT_MS = 200;
/** A log that says nothing for so long is read again later: it must not hold one of the browser's few connections. */
const QUIET_MS = 1000;
const AGAIN_MS = 2000;
/** What is selected while what this tab has sent and received is shown: nothing that there is. */
const LIVE = "live";

/** Records, which grow while they are shown. */
interface Given {
  readonly records: Records;
  /** What else is told of a record in its row. */
  readonly more?: ((record: WireRecord) => string) | undefined;
  /** The request that a record was, or one that brings it again. */
  readonly call: (record: WireRecord) => Call;
  /** The address of a record; absent: it has none. */
  readonly link?: ((record: WireRecord) => string) | undefined;
  /** What is said where there are none. */
  readonly none: string;
  /** Words that are looked for, and the record that is open, at first. */
  readonly about?: string;
  readonly event?: number;
  /** The kind that is shown at first; empty: all of them. */
  readonly only?: string;
  /** The choice of where the records are from. */
  readonly children?: ComponentChildren;
}

/** Show records by kind and by words, and the one that is open; the newest in view for as long as none is open. */
export function Inspector({ records, more, call, link, about = "", event = 0, only = "", none, children }: Given) {
  const [kind, setKind] = useState(only);
  const [words, setWords] = useState(about);
  const [chosen, choose] = useState(event);
  const [, paint] = useState({});
  const { list: all, total } = records;
  useEvery(PAINT_MS, () => total === records.total || paint({}));
  const sieve = useMemo(() => new Sieve(kind, words.trim()), [kind, words, records]);
  sieve.take(all);
  const { rows, counts } = sieve;
  const record = rows.find(({ number }) => number === chosen);
  const count = rows.length === total ? strings.panel.count(total) : strings.panel.countOf(rows.length, total);
  // The session changes more often than the list is painted.
  const list = useMemo(() => <Rows {...{ rows, count: rows.length, chosen, choose, more }} />, [rows, rows.length, chosen]);
  const toRow = () => document.querySelector<HTMLElement>(".records [aria-current=true] button")?.focus();
  // The kind that was asked for is there before anything of it is.
  const there = new Map([...(only ? [[only, 0] as const] : []), ...counts]);
  const kinds = [...there].map(([name, number]) => [name, `${name} (${number.toLocaleString()})`] as const);
  const unknown = counts.get(UNKNOWN) ?? 0;
  return (
    <>
      <div class="filters">
        {children}
        <Choice label={strings.panel.kind} value={kind} options={[["", strings.panel.allKinds], ...kinds]} act={setKind} />
        <input type="search" class="field" aria-label={strings.panel.filter} placeholder={strings.panel.filter}
          value={words} onInput={(event) => setWords(event.currentTarget.value)} />
      </div>
      <p class="counts" data-total={total} data-artifact-updates={counts.get("artifact-update") ?? 0}>
        {count}
        {unknown > 0 && kind !== UNKNOWN && <Act label={strings.panel.unknown(unknown)} act={() => setKind(UNKNOWN)} />}
      </p>
      {total ? list : <p class="empty">{none}</p>}
      {record && <RecordDetails record={record} call={call} link={link} close={() => [toRow(), choose(0)]} />}
    </>
  );
}

/**
 * Only the rows around what is in view are in the page, in elements that are used again: all have the same height. The rows
 * grow, and stay the same object: without their `count` they would not be drawn anew.
 */
function Rows({ rows, count, chosen, choose, more }: Pick<Given, "more"> & {
  rows: readonly WireRecord[]; count: number; chosen: number; choose: (number: number) => void;
}) {
  const box = useRef<HTMLDivElement>(null);
  const [top, setTop] = useState(0);
  const atEnd = useRef(true);
  const index = rows.findIndex(({ number }) => number === chosen);
  const look = ({ scrollTop, clientHeight, scrollHeight }: Element) => {
    atEnd.current = scrollTop + clientHeight > scrollHeight - 2 * ROW;
    setTop(Math.floor(scrollTop / ROW));
  };
  useLayoutEffect(() => {
    if (!chosen && atEnd.current) box.current!.scrollTop = count * ROW;
    look(box.current!);
  }, [count, !chosen]);
  useEffect(() => {
    const { scrollTop, clientHeight } = box.current!;
    const seen = index * ROW >= scrollTop && (index + 1) * ROW <= scrollTop + clientHeight;
    if (index >= 0 && !seen) box.current!.scrollTop = index * ROW - clientHeight / 2;
  }, [chosen, index]);
  const first = Math.max(0, top - BEYOND);
  const last = Math.min(count, first + ELEMENTS);
  const reachable = index >= first && index < last ? index : last - 1;
  return (
    <div class="records" ref={box} onScroll={(event) => look(event.currentTarget)} onKeyDown={(event) => walk(event, "button")}>
      <ul aria-label={strings.panel.parts.events} style={{ blockSize: `${count * ROW}px` }}>
        {rows.slice(first, last).map((record, offset) => {
          const { number, kind, direction } = record;
          const at = first + offset;
          const place = { "aria-setsize": count, "aria-posinset": at + 1, "aria-current": number === chosen };
          return (
            <li key={at % ELEMENTS} data-number={number} data-kind={kind} {...place} style={{ insetBlockStart: `${at * ROW}px` }}>
              <button type="button" tabIndex={at === reachable ? 0 : -1} onClick={() => choose(number)}
                onFocus={() => chosen && choose(number)}>
                <time dateTime={record.at ? new Date(record.at).toISOString() : ""} title={fullTime(record.at)}>{exactTime(record.at)}</time>
                <span title={strings.panel.ways[direction]}>{direction === "sent" ? "↑" : "↓"}</span>
                <strong>{kind}</strong>
                <span class="gist" dir="auto">{gist(record)}</span>
                {more && <small>{more(record)}</small>}
              </button>
            </li>
          );
        })}
      </ul>
    </div>
  );
}

/** One record: its JSON, and how to get it again. */
function RecordDetails({ record, call, link, close }: Pick<Given, "call" | "link"> & { record: WireRecord; close: () => void }) {
  const json = useMemo(() => JSON.stringify(record.body, null, 2) ?? "", [record]);
  const command = () => curl(call(record), config.value?.auth.required ?? false);
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
        {link && <Act label={strings.chat.copyLink} act={() => void copy(link(record))} />}
      </div>
      <pre class="sheet" tabIndex={0} dir="ltr">{json.length > MOST ? `${json.slice(0, MOST)}\n${strings.panel.cutRecord}` : json}</pre>
    </section>
  );
}

/** Show the records of the open session. What is selected, a task or a message, is looked up in the log of its task. */
export function Events() {
  const open = view.value!;
  const { source, about, event, only } = lookUp(open);
  const called = ({ id }: TaskInfo) => [id, strings.panel.logOf(titles.value.get(id) || id)] as const;
  const logs = open.tasks.slice(-MOST_LOGS).reverse().map(called);
  const link = ({ taskId, number }: WireRecord) => address(chat(open.id, { task: taskId, event: String(number) }));
  const key = [open.id, source, about, event, only].join(" ");
  const records = useMemo(() => (source ? new Records() : session.value!.records), [key, session.value]);
  return (
    <Polled key={key} data={records} every={AGAIN_MS} load={(signal) => read(source, records, signal)}>
      {() => (
        <Inspector records={records} about={about} event={event} only={only} call={(record) => callOf(record, open)} link={source ? link : undefined}
          none={source ? "" : strings.panel.noEvents}>
          <Choice label={strings.panel.from} value={source || LIVE} options={[[LIVE, strings.panel.live], ...logs]}
            act={(id) => (selected.value = id)} />
        </Inspector>
      )}
    </Polled>
  );
}

function lookUp({ rows, tasks }: SessionView) {
  const nothing = { source: "", about: "", event: 0, only: "" };
  const at = route.value;
  const linked = at.event ? at.task || tasks.at(-1)?.id : "";
  const chosen = selected.value || linked;
  if (chosen === UNKNOWN) return { ...nothing, source: session.value!.records.list.some(({ unknown }) => unknown) ? "" : strange(rows), only: UNKNOWN };
  const row = rows.find((one) => one.kind === "message" && one.message.id === chosen);
  if (row?.kind === "message") return { ...nothing, source: row.message.taskId, about: row.message.id };
  const event = chosen === linked ? Number(at.event) || 0 : 0;
  return { ...nothing, source: tasks.find(({ id }) => id === chosen)?.id ?? "", event };
}

/** Return the newest task that said or made something of a form that this page does not know. */
function strange(rows: SessionView["rows"]): string {
  const found = rows.findLast((row) =>
    row.kind === "message" ? unknownParts(row.message.parts) : row.kind === "artifact" && unknownParts(row.artifact.versions.at(-1)?.parts ?? []),
  );
  return found?.kind === "message" ? found.message.taskId : found?.kind === "artifact" ? found.artifact.taskId : "";
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
  const before = cursor.replace(/\d+$/, (generation) => String(Number(generation) - 1));
  if (before) return { url: path(`${taskPath(taskId)}/events`), headers: { "Last-Event-ID": before } };
  return { url: path(taskId ? taskPath(taskId) : `${sessionPath(open.id)}/messages`) };
}

/** Add what is new in the log of a task; without a task there is none to read. */
async function read(task: string, records: Records, signal: AbortSignal): Promise<Records> {
  const events = task ? api.events(task, records.list.at(-1)?.cursor ?? "", signal, QUIET_MS) : [];
  try {
    for await (const { id: cursor = "", body } of events) records.keep(logged(task, { cursor, ...(body as unknown as LogEvent) }));
  } catch (error) {
    if (failureOf(error).code !== "TIMED_OUT") throw error;
  }
  return records;
}
