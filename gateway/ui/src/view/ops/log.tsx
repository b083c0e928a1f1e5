/** The log of a task: its end first, earlier events when asked for, and new ones as they come. */

import { useState } from "preact/hooks";
import { gist } from "../../model/inspected";
import type { OpsEvent, OpsTask, Tail } from "../../model/ops";
import { api } from "../../state";
import { strings } from "../../strings";
import { copy } from "../copy";
import { duration, firstLine } from "../format";
import { Button } from "../icons";
import { Moment } from "./places";
import { Polled } from "./polled";
import { Columns, Part } from "./table";

const words = strings.ops;
const STEP = 500;
const two = "2-digit";
const clock = new Intl.DateTimeFormat(undefined, { hour: two, minute: two, second: two, fractionalSecondDigits: 3 });

/** Show the log of a task up to its generation. */
export function Log({ task }: { task: OpsTask }) {
  const [count, setCount] = useState(STEP);
  const [open, setOpen] = useState<ReadonlySet<number>>(new Set());
  const toggle = (number: number) => setOpen(new Set(open.has(number) ? [...open].filter((one) => one !== number) : [...open, number]));
  const after = (time: string, before?: OpsEvent) => before && `+${duration(Date.parse(time) - Date.parse(before.time))}`;
  return (
    <Part title={words.log} hint={`${words.logHint} ${task.completedAt ? "" : words.follows}`}>
      <Polled
        load={(before?: Tail) => api.ops.tail(task, count, before)}
        wait={words.loading.log}
        turn={`${task.generation} ${count}`}
      >
        {({ events, from }) => (
          <>
            {from > 0 && <Button kind="small" label={words.earlier} act={() => setCount(count + STEP)} />}
            <Columns
              name={words.log}
              kind="ops-cards ops-log"
              none={words.noLog}
              rows={events}
              id={({ generation }) => generation}
              marks={({ generation, kind }) => ({ "data-generation": generation, "data-kind": kind })}
              columns={[
                [words.number, ({ generation: number }) => (
                  <button
                    type="button" class="link" aria-expanded={open.has(number)} aria-label={words.event(number)}
                    onClick={() => toggle(number)}
                  >
                    {number}
                  </button>
                )],
                [words.time, ({ time }) => <Moment at={time}>{clock.format(new Date(time))}</Moment>],
                [words.delta, ({ time }, at) => after(time, events[at - 1]), "ops-delta"],
                [words.attempt, ({ attempt }) => attempt],
                [words.fence, ({ fence }) => fence],
                [words.actor, ({ actor }) => actor],
                [words.kind, ({ kind }) => kind.replaceAll("_", " ")],
                [words.said, ({ event }) => (event ? firstLine(gist({ body: event }), 160) : ""), "ops-wide"],
              ]}
              below={(event) => open.has(event.generation) && <Json of={JSON.stringify(event, null, 2)} />}
            />
          </>
        )}
      </Polled>
    </Part>
  );
}

function Json({ of }: { of: string }) {
  return (
    <tr class="ops-json">
      <td colSpan={8}>
        <Button kind="small" label={words.copy} act={() => void copy(of)} />
        <pre tabIndex={0} dir="ltr">{of}</pre>
      </td>
    </tr>
  );
}
