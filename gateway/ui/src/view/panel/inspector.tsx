/** The inspector: records as they were on the wire, by kind and by words, and the one that is open. */

import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { Sieve, gist } from "../../model/inspected";
import type { Call } from "../../model/snippets";
import type { WireRecord } from "../../model/view";
import { strings } from "../../strings";
import { Act, Choice, walk } from "../controls";
import { exactTime } from "../format";
import { words as wordsOf } from "../toasts";
import { RecordDetails } from "./record";
import type { useRecords } from "./records";

const ROW = 32;
const BEYOND = 20;
/** Elements for rows, more than a screen shows: each row stays in the same one while it is in view. */
const ELEMENTS = 128;

/** Records, which grow while they are shown, and how they are. */
export interface Given extends ReturnType<typeof useRecords> {
  /** What else is told of a record in its row. */
  readonly more?: ((record: WireRecord) => string) | undefined;
  /** The request that a record was, or one that brings it again. */
  readonly call: (record: WireRecord) => Call;
  /** The address of a record; absent: it has none. */
  readonly link?: ((record: WireRecord) => string) | undefined;
  /** What is said where there are none. */
  readonly none?: string;
  /** Words that are looked for, and the record that is open, at first. */
  readonly about?: string;
  readonly event?: number;
  /** The choice of where the records are from. */
  readonly children?: ComponentChildren;
}

/** Show records, the newest in view for as long as none is open. */
export function Inspector({ records, failure, more, call, link, about = "", event = 0, none = strings.panel.noEvents, children }: Given) {
  const [kind, setKind] = useState("");
  const [words, setWords] = useState(about);
  const [chosen, choose] = useState(event);
  const { list: all, total } = records;
  const sieve = useMemo(() => new Sieve(kind, words.trim()), [kind, words, records]);
  sieve.take(all);
  const { rows, counts } = sieve;
  const unknown = counts.get("unknown") ?? 0;
  const record = rows.find(({ number }) => number === chosen);
  const count = rows.length === total ? strings.panel.count(total) : strings.panel.countOf(rows.length, total);
  // The session changes more often than the list is painted.
  const list = useMemo(() => <Rows {...{ rows, count: rows.length, chosen, choose, more }} />, [rows, rows.length, chosen]);
  const toRow = () => document.querySelector<HTMLElement>(".records [aria-current=true] button")?.focus();
  const kinds = [...counts].map(([name, number]) => [name, `${name} (${number})`] as const);
  return (
    <>
      <div class="filters">
        {children}
        <Choice label={strings.panel.kind} value={kind} options={[["", strings.panel.allKinds], ...kinds]} act={setKind} />
        <input type="search" class="field" aria-label={strings.panel.filter} placeholder={strings.panel.filter}
          value={words} onInput={(event) => setWords(event.currentTarget.value)} />
      </div>
      <div class="counts" data-total={total} data-artifact-updates={counts.get("artifact-update") ?? 0}>
        <span>{count}</span>
        {unknown > 0 && <Act icon="alert" label={strings.panel.unknown(unknown)} pressed={kind === "unknown"} act={() => setKind(kind ? "" : "unknown")} />}
      </div>
      {failure && <p class="failure" role="alert" data-code={failure.code}>{wordsOf(failure).join(" ")}</p>}
      {!total && !failure && <p class="empty">{none}</p>}
      {total > 0 && list}
      {record && <RecordDetails record={record} call={call} link={link} close={() => [toRow(), choose(0)]} />}
    </>
  );
}

/** Only the rows around what is in view are in the page, in elements that are used again: all have the same height. */
function Rows({ rows, count, chosen, choose, more }: Pick<Given, "more"> & {
  rows: readonly WireRecord[]; count: number; chosen: number; choose: (number: number) => void;
}) {
  const box = useRef<HTMLDivElement>(null);
  const [seen, setSeen] = useState({ top: 0, height: 0 });
  const atEnd = useRef(true);
  const index = rows.findIndex(({ number }) => number === chosen);
  const look = () => {
    // A scroll may be told after the list is gone.
    if (!box.current) return;
    const { scrollTop, clientHeight, scrollHeight } = box.current;
    atEnd.current = scrollTop + clientHeight > scrollHeight - 2 * ROW;
    const top = Math.floor(scrollTop / ROW);
    if (top !== seen.top || clientHeight !== seen.height) setSeen({ top, height: clientHeight });
  };
  useLayoutEffect(() => {
    if (!chosen && atEnd.current) box.current!.scrollTop = count * ROW;
    look();
  }, [count, !chosen]);
  useEffect(() => {
    if (!box.current) return;
    const { scrollTop, clientHeight } = box.current;
    const seen = index * ROW >= scrollTop && (index + 1) * ROW <= scrollTop + clientHeight;
    if (index >= 0 && !seen) box.current.scrollTop = index * ROW - clientHeight / 2;
  }, [chosen, index]);
  const first = Math.max(0, seen.top - BEYOND);
  const last = Math.min(count, seen.top + Math.ceil(seen.height / ROW) + BEYOND);
  const reachable = index >= first && index < last ? index : last - 1;
  return (
    <div class="records" ref={box} onScroll={look} onKeyDown={(event) => walk(event, "button")}>
      <ul aria-label={strings.panel.parts.events} style={{ blockSize: `${count * ROW}px` }}>
        {rows.slice(first, last).map((record, offset) => {
          const { number, kind, direction } = record;
          const at = first + offset;
          const place = { "aria-setsize": count, "aria-posinset": at + 1, "aria-current": number === chosen };
          const style = { insetBlockStart: `${at * ROW}px` };
          return (
            <li key={at % Math.max(ELEMENTS, last - first)} data-number={number} data-kind={kind} {...place} style={style}>
              <button type="button" tabIndex={at === reachable ? 0 : -1} onClick={() => choose(number)} onFocus={() => chosen && choose(number)}>
                <time>{exactTime(record.at)}</time>
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
