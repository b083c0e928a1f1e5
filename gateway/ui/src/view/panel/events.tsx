/** The inspector: everything that this tab has sent and received, or the log of a task, as it was on the wire. */

import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { Sieve, gist } from "../../model/inspected";
import type { SessionView, WireRecord } from "../../model/view";
import { route, selected, view } from "../../state";
import { strings } from "../../strings";
import { Icon } from "../icons";
import { words as wordsOf } from "../toasts";
import { Nothing } from "./panel";
import { RecordDetails } from "./record";
import { useRecords } from "./records";
import { useTitles } from "./tasks";

const ROW = 32;
const BEYOND = 20;
const clock = new Intl.DateTimeFormat("en", { hourCycle: "h23", hour: "2-digit", minute: "2-digit", second: "2-digit", fractionalSecondDigits: 3 });

/** Show the records of the open session. What is selected, a task or a message, is looked up in the log of its task. */
export function Events() {
  const open = view.value;
  if (!open) return null;
  const given = lookUp(open);
  return <Inspector key={Object.values(given).join(" ")} open={open} {...given} />;
}

function lookUp(open: SessionView): { source: string; about: string; event: number } {
  const at = route.value;
  const linked = at.name === "chat" && at.event ? at.task || open.tasks.at(-1)?.id : "";
  const chosen = selected.value || linked;
  const event = at.name === "chat" && chosen === linked ? Number(at.event) || 0 : 0;
  if (open.tasks.some(({ id }) => id === chosen)) return { source: chosen ?? "", about: "", event };
  const row = open.rows.find((one) => one.kind === "message" && one.message.id === chosen);
  return { source: row?.kind === "message" ? row.message.taskId : "", about: row ? (chosen ?? "") : "", event: 0 };
}

function Inspector({ open, ...given }: { open: SessionView; source: string; about: string; event: number }) {
  const [source, setSource] = useState(given.source);
  const [kind, setKind] = useState("");
  const [words, setWords] = useState(given.about);
  const [paused, setPaused] = useState(false);
  const [chosen, choose] = useState(given.event);
  const titles = useTitles(open.rows);
  const { all, total, failure } = useRecords(source);
  const sieve = useMemo(() => new Sieve(kind, words.trim()), [kind, words, source]);
  const frozen = useRef(0);
  if (!paused) {
    sieve.take(all);
    frozen.current = total;
  } else if (!sieve.counts.size) sieve.take(all);
  const unknown = sieve.counts.get("unknown") ?? 0;
  const record = sieve.rows.find(({ number }) => number === chosen);
  return (
    <>
      <div class="filters">
        <select
          class="field"
          aria-label={strings.panel.from}
          value={source}
          onChange={(event) => {
            choose(0);
            setSource(event.currentTarget.value);
          }}
        >
          <option value="">{strings.panel.live}</option>
          {[...open.tasks].reverse().slice(0, 100).map((task) => (
            <option key={task.id} value={task.id}>{strings.panel.logOf(titles.get(task.id) || task.id)}</option>
          ))}
        </select>
        <select class="field" aria-label={strings.panel.kind} value={kind} onChange={(event) => setKind(event.currentTarget.value)}>
          <option value="">{strings.panel.allKinds}</option>
          {[...sieve.counts].map(([name, count]) => (
            <option key={name} value={name}>{`${name} (${count})`}</option>
          ))}
        </select>
        <input
          type="search"
          class="field"
          aria-label={strings.panel.filter}
          placeholder={strings.panel.filter}
          value={words}
          onInput={(event) => setWords(event.currentTarget.value)}
        />
      </div>
      <div class="counts" data-total={total} data-artifact-updates={sieve.counts.get("artifact-update") ?? 0} data-unknown={unknown}>
        <span>{sieve.rows.length === total ? strings.panel.count(total) : strings.panel.countOf(sieve.rows.length, total)}</span>
        {unknown > 0 && (
          <button type="button" class="button small warn" aria-pressed={kind === "unknown"} onClick={() => setKind(kind === "unknown" ? "" : "unknown")}>
            <Icon name="alert" size={14} /> {strings.panel.unknown(unknown)}
          </button>
        )}
        <button type="button" class="button small quiet" aria-pressed={paused} onClick={() => setPaused(!paused)}>
          {paused ? strings.panel.goOn(total - frozen.current) : strings.panel.pause}
        </button>
      </div>
      {failure && <p class="failure" role="alert" data-code={failure.code}>{wordsOf(failure).join(" ")}</p>}
      {!total && !failure ? (
        <Nothing icon="events" text={strings.panel.noEvents} />
      ) : (
        <Rows rows={sieve.rows} count={sieve.rows.length} follow={!paused && !chosen} chosen={chosen} choose={choose} />
      )}
      {record && <RecordDetails record={record} log={source !== ""} open={open} close={() => choose(0)} />}
    </>
  );
}

/** Only the rows around what is in view are in the page: all have the same height. */
function Rows(props: { rows: readonly WireRecord[]; count: number; follow: boolean; chosen: number; choose: (number: number) => void }) {
  const { rows, count, chosen, choose } = props;
  const box = useRef<HTMLDivElement>(null);
  const [seen, setSeen] = useState({ top: 0, height: 600 });
  const atEnd = useRef(true);
  const look = () => {
    const { scrollTop, clientHeight, scrollHeight } = box.current!;
    atEnd.current = scrollTop + clientHeight > scrollHeight - 2 * ROW;
    const top = Math.floor(scrollTop / ROW) * ROW;
    if (top !== seen.top || clientHeight !== seen.height) setSeen({ top, height: clientHeight });
  };
  useLayoutEffect(() => {
    if (props.follow && atEnd.current) box.current!.scrollTop = count * ROW;
    look();
  }, [count, props.follow]);
  const index = rows.findIndex(({ number }) => number === chosen);
  useEffect(() => {
    const { scrollTop, clientHeight } = box.current!;
    if (index >= 0 && (index * ROW < scrollTop || (index + 1) * ROW > scrollTop + clientHeight))
      box.current!.scrollTop = index * ROW - clientHeight / 2;
  }, [chosen, index >= 0]);
  const walk = (event: KeyboardEvent) => {
    const at = rows.findIndex(({ number }) => String(number) === (event.target as HTMLElement).closest<HTMLElement>("li")?.dataset["number"]);
    const to = rows[{ ArrowDown: at + 1, ArrowUp: at - 1 }[event.key] ?? -1];
    if (!to) return;
    event.preventDefault();
    const next = box.current!.querySelector<HTMLElement>(`[data-number="${to.number}"] button`);
    next?.focus();
    next?.scrollIntoView({ block: "nearest" });
    if (chosen) choose(to.number);
  };
  const first = Math.max(0, seen.top / ROW - BEYOND);
  const last = Math.min(count, Math.ceil((seen.top + seen.height) / ROW) + BEYOND);
  const reachable = index >= first && index < last ? chosen : rows[last - 1]?.number;
  return (
    <div class="records" ref={box} onScroll={look} onKeyDown={walk}>
      <ul aria-label={strings.panel.parts.events} style={{ blockSize: `${count * ROW}px` }}>
        {rows.slice(first, last).map((record, at) => (
          <li
            key={record.number}
            data-number={record.number}
            data-kind={record.kind}
            aria-setsize={count}
            aria-posinset={first + at + 1}
            style={{ insetBlockStart: `${(first + at) * ROW}px` }}
          >
            <button type="button" aria-pressed={record.number === chosen} tabIndex={record.number === reachable ? 0 : -1} onClick={() => choose(record.number === chosen ? 0 : record.number)}>
              <time>{clock.format(record.at)}</time>
              <span class="way" title={strings.panel.ways[record.direction]}>{record.direction === "sent" ? "↑" : "↓"}</span>
              <span class="kind">{record.kind}</span>
              <span class="gist" dir="auto">{gist(record)}</span>
            </button>
          </li>
        ))}
      </ul>
    </div>
  );
}
