/** The log of a task of any owner: its end first, all of it when asked for, and new events as they come. */

import "../../style/panel.css";
import { useMemo, useState } from "preact/hooks";
import { logged } from "../../model/inspected";
import type { OpsEvent, OpsTask } from "../../model/ops";
import { Records } from "../../model/records";
import { ROOT, api } from "../../state";
import { strings } from "../../strings";
import { Part } from "../controls";
import { Button } from "../icons";
import { Inspector } from "../panel/inspector";
import { Polled } from "./polled";

const words = strings.ops;
/** So many events are shown at first. */
const NEWEST = 500;

/** Show the log of a task up to its generation. */
export function Log({ taskId, generation, completedAt }: OpsTask) {
  const [from, setFrom] = useState(Math.max(0, generation - NEWEST));
  const records = useMemo(() => new Records(), [from]);
  const last = () => records.list.at(-1)?.number ?? from;
  const load = async () => {
    for (let after = last(); after < generation; ) {
      const { events, next_after: next = generation } = await api.ops.events(taskId, after);
      // Another reading may have come first.
      for (const event of events) if (event.generation > last()) records.keep(logged(taskId, event));
      after = next;
    }
    return records;
  };
  return (
    <Part title={words.log} hint={`${words.logHint} ${completedAt ? "" : words.follows}`}>
      {from > 0 && <Button kind="small" label={words.earlier} act={() => setFrom(0)} />}
      <div class="panel-part events ops-log">
        <Polled load={load} turn={`${from} ${generation}`}>
          {(records) => (
            // Functions that are made anew draw it anew: its records grow, and stay the same object.
            <Inspector records={records} failure={null} none={words.noLog} more={({ body }) => words.by(body as OpsEvent)}
              call={({ number }) => ({ url: new URL(api.ops.logPath(taskId, number - 1, 1), ROOT).href })} />
          )}
        </Polled>
      </div>
    </Part>
  );
}
