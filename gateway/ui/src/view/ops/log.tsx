/** The log of a task: its end first, earlier events when asked for, and new ones as they come. */

import { Fragment } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { failureOf } from "../../model/failures";
import { joined, told } from "../../model/operations";
import type { OpsEvent, OpsTask } from "../../model/ops";
import type { Failure } from "../../model/view";
import { api } from "../../state";
import { strings } from "../../strings";
import { copy } from "../copy";
import { duration, firstLine, fullTime } from "../format";
import { words as wordsOf } from "../toasts";
import { Waiting } from "./polled";
import { Part, Table } from "./table";

const words = strings.ops;
const STEP = 500;
const PAGE = 1000;
const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", fractionalSecondDigits: 3 });

interface Shown {
  readonly events: readonly OpsEvent[];
  /** All events after this generation are there. */
  readonly from: number;
}

/** Show the log of a task up to its generation. */
export function Log({ task }: { task: OpsTask }) {
  const { part, failure, earlier, again } = useLog(task);
  const [open, setOpen] = useState<ReadonlySet<number>>(new Set());
  const toggle = (number: number) => setOpen(new Set(open.has(number) ? [...open].filter((one) => one !== number) : [...open, number]));
  return (
    <Part title={words.log} hint={`${words.logHint} ${task.completedAt ? "" : words.follows}`}>
      {failure && (
        <p class="ops-stale" role="alert" data-code={failure.code}>
          <span>{wordsOf(failure).join(" ")}</span>
          <button type="button" class="button small" onClick={again}>{words.again}</button>
        </p>
      )}
      {!part && !failure && <Waiting text={words.loading.log} />}
      {part && part.from > 0 && <button type="button" class="button small" onClick={earlier}>{words.earlier}</button>}
      {part && !part.events.length && <p class="aside">{words.noLog}</p>}
      {part && part.events.length > 0 && (
        <Table name={words.log} kind="ops-cards ops-log" head={[words.number, words.time, words.delta, words.attempt, words.fence, words.actor, words.kind, words.said]}>
          <tbody>
            {part.events.map((event, index) => (
              <Row key={event.generation} event={event} before={part.events[index - 1]} open={open.has(event.generation)} toggle={toggle} />
            ))}
          </tbody>
        </Table>
      )}
    </Part>
  );
}

function Row({ event, before, open, toggle }: { event: OpsEvent; before: OpsEvent | undefined; open: boolean; toggle: (number: number) => void }) {
  const { state, text } = told(event);
  const json = open ? JSON.stringify(event, null, 2) : "";
  return (
    <Fragment>
      <tr data-generation={event.generation} data-kind={event.kind} data-state={state}>
        <th scope="row">
          <button type="button" class="link" aria-expanded={open} aria-label={words.event(event.generation)} onClick={() => toggle(event.generation)}>{event.generation}</button>
        </th>
        <td data-label={words.time}><time dateTime={event.time} title={fullTime(event.time)}>{clock.format(new Date(event.time))}</time></td>
        <td data-label={words.delta} class="ops-delta">{before ? `+${duration(Date.parse(event.time) - Date.parse(before.time))}` : ""}</td>
        <td data-label={words.attempt}>{event.attempt}</td>
        <td data-label={words.fence}>{event.fence}</td>
        <td data-label={words.actor} dir="auto">{event.actor}</td>
        <td data-label={words.kind}>{event.kind.replaceAll("_", " ")}</td>
        <td data-label={words.said} class="ops-wide" dir="auto">{state && <strong>{state} </strong>}{firstLine(text, 160)}</td>
      </tr>
      {open && (
        <tr class="ops-json">
          <td colSpan={8}>
            <button type="button" class="button small" onClick={() => void copy(json)}>{words.copy}</button>
            <pre tabIndex={0} dir="ltr">{json}</pre>
          </td>
        </tr>
      )}
    </Fragment>
  );
}

function useLog({ taskId, generation }: OpsTask) {
  const [part, setPart] = useState<Shown | null>(null);
  const [failure, setFailure] = useState<Failure | null>(null);
  const [asked, again] = useState(0);
  const most = useRef(STEP);
  const now = useRef(part);
  const keep = (events: readonly OpsEvent[], from: number) => {
    const kept = events.slice(-most.current);
    now.current = { events: kept, from: kept.length < events.length ? kept[0]!.generation - 1 : from };
    setPart(now.current);
    setFailure(null);
  };
  const failed = (error: unknown) => setFailure(failureOf(error));
  useEffect(() => {
    let current = true;
    const read = async () => {
      const begin = Math.max(0, generation - most.current);
      const last = now.current?.events.at(-1)?.generation ?? 0;
      const skips = last < begin;
      const [kept, from] = skips ? [[], begin] : [now.current?.events ?? [], now.current?.from ?? 0];
      let added: readonly OpsEvent[] = kept;
      for (let after = skips ? begin : last, more = true; more && current; ) {
        const page = await api.ops.events(taskId, after, PAGE);
        added = joined(added, page.events);
        more = page.next > after;
        after = page.next;
      }
      if (current) keep(added, from);
    };
    void read().catch((error: unknown) => current && failed(error));
    return () => {
      current = false;
    };
  }, [taskId, generation, asked]);
  const earlier = async () => {
    const shown = now.current;
    if (!shown) return;
    let from = shown.from;
    let found: readonly OpsEvent[] = [];
    while (!found.length && from > 0) {
      const until = from;
      from = Math.max(0, from - STEP);
      found = (await api.ops.events(taskId, from, STEP)).events.filter((event) => event.generation <= until);
    }
    most.current += STEP;
    keep(joined(found, now.current?.events ?? []), from);
  };
  return { part, failure, earlier: () => void earlier().catch(failed), again: () => again(asked + 1) };
}
