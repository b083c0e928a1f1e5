/** The inspector: everything that this tab has sent and received, or the log of a task, as it was on the wire. */

import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { Sieve, gist } from "../../model/inspected";
import type { SessionView, TaskInfo, WireRecord } from "../../model/view";
import { route, selected, view } from "../../state";
import { strings } from "../../strings";
import { Act, Choice, walk } from "../controls";
import { exactTime } from "../format";
import { words as wordsOf } from "../toasts";
import { RecordDetails } from "./record";
import { useRecords } from "./records";
import { titles } from "./tasks";

const ROW = 32;
const BEYOND = 20;
const MOST_LOGS = 100;

/** Show the records of the open session. What is selected, a task or a message, is looked up in the log of its task. */
export function Events() {
  const open = view.value!;
  const given = lookUp(open);
  return <Inspector key={[open.id, ...Object.values(given)].join(" ")} open={open} {...given} />;
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

function Inspector({ open, ...given }: { open: SessionView; source: string; about: string; event: number }) {
  const [source, setSource] = useState(given.source);
  const [kind, setKind] = useState("");
  const [words, setWords] = useState(given.about);
  const [paused, setPaused] = useState(false);
  const [chosen, choose] = useState(given.event);
  const { all, total, failure } = useRecords(source);
  const sieve = useMemo(() => new Sieve(kind, words.trim()), [kind, words, source]);
  const frozen = useRef(0);
  if (!paused) frozen.current = total;
  if (!paused || !sieve.counts.size) sieve.take(all);
  const { rows, counts } = sieve;
  const unknown = counts.get("unknown") ?? 0;
  const record = rows.find(({ number }) => number === chosen);
  const count = rows.length === total ? strings.panel.count(total) : strings.panel.countOf(rows.length, total);
  const follow = !paused && !chosen;
  // The session changes more often than the list is painted.
  const list = useMemo(() => <Rows {...{ rows, count: rows.length, follow, chosen, choose }} />, [rows, rows.length, follow, chosen]);
  const called = ({ id }: TaskInfo) => [id, strings.panel.logOf(titles.value.get(id) || id)] as const;
  const logs = open.tasks.slice(-MOST_LOGS).reverse().map(called);
  const kinds = [...counts].map(([name, number]) => [name, `${name} (${number})`] as const);
  const from = (task: string) => {
    choose(0);
    setSource(task);
  };
  return (
    <>
      <div class="filters">
        <Choice label={strings.panel.from} value={source} options={[["", strings.panel.live], ...logs]} act={from} />
        <Choice label={strings.panel.kind} value={kind} options={[["", strings.panel.allKinds], ...kinds]} act={setKind} />
        <input type="search" class="field" aria-label={strings.panel.filter} placeholder={strings.panel.filter}
          value={words} onInput={(event) => setWords(event.currentTarget.value)} />
      </div>
      <div class="counts" data-total={total} data-artifact-updates={counts.get("artifact-update") ?? 0}>
        <span>{count}</span>
        {unknown > 0 && <Act icon="alert" label={strings.panel.unknown(unknown)} pressed={kind === "unknown"} act={() => setKind(kind ? "" : "unknown")} />}
        <Act label={paused ? strings.panel.goOn(total - frozen.current) : strings.panel.pause} pressed={paused} act={() => setPaused(!paused)} />
      </div>
      {failure && <p class="failure" role="alert" data-code={failure.code}>{wordsOf(failure).join(" ")}</p>}
      {!total && !failure && <p class="nothing">{strings.panel.noEvents}</p>}
      {total > 0 && list}
      {record && <RecordDetails record={record} log={source !== ""} open={open} close={() => choose(0)} />}
    </>
  );
}

/** Only the rows around what is in view are in the page, in elements that are used again: all have the same height. */
function Rows(props: { rows: readonly WireRecord[]; count: number; follow: boolean; chosen: number; choose: (number: number) => void }) {
  const { rows, count, follow, chosen, choose } = props;
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
    if (follow && atEnd.current) box.current!.scrollTop = count * ROW;
    look();
  }, [count, follow]);
  useEffect(() => {
    if (!box.current) return;
    const { scrollTop, clientHeight } = box.current;
    const seen = index * ROW >= scrollTop && (index + 1) * ROW <= scrollTop + clientHeight;
    if (index >= 0 && !seen) box.current.scrollTop = index * ROW - clientHeight / 2;
  }, [chosen, index >= 0]);
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
            <li key={at % (last - first)} data-number={number} data-kind={kind} {...place} style={style}>
              <button type="button" tabIndex={at === reachable ? 0 : -1} onClick={() => choose(number)} onFocus={() => chosen && choose(number)}>
                <time>{exactTime(record.at)}</time>
                <span title={strings.panel.ways[direction]}>{direction === "sent" ? "↑" : "↓"}</span>
                <strong>{kind}</strong>
                <span class="gist" dir="auto">{gist(record)}</span>
              </button>
            </li>
          );
        })}
      </ul>
    </div>
  );
}
