/** The log of a task of any owner: its end first, all of it when asked for, and new events as they come. */

import "../../style/panel.css";
import { useEffect, useMemo, useState } from "preact/hooks";
import { failureOf } from "../../model/failures";
import { logged } from "../../model/inspected";
import type { OpsEvent, OpsTask } from "../../model/ops";
import { Records } from "../../model/records";
import type { Failure } from "../../model/view";
import { ROOT, api } from "../../state";
import { strings } from "../../strings";
import { Part, useEvery } from "../controls";
import { Button } from "../icons";
import { Inspector } from "../panel/inspector";

const words = strings.ops;
/** So many events are shown at first. */
const NEWEST = 500;
const AGAIN_MS = 5000;

/** Show the log of a task up to its generation. */
export function Log({ taskId, generation, completedAt }: OpsTask) {
  const [from, setFrom] = useState(Math.max(0, generation - NEWEST));
  const [failure, setFailure] = useState<Failure | null>(null);
  const [again, setAgain] = useState(0);
  const [, paint] = useState({});
  const records = useMemo(() => new Records(), [from]);
  useEffect(() => {
    let current = true;
    const read = async () => {
      let after = records.list.at(-1)?.number ?? from;
      while (current && after < generation) {
        const { events, next_after: next = generation } = await api.ops.events(taskId, after);
        if (current) for (const event of events) records.keep(logged(taskId, event));
        after = next;
        paint({});
      }
    };
    void read().then(() => null, failureOf).then((why) => current && setFailure(why));
    return () => {
      current = false;
    };
  }, [records, generation, again]);
  useEvery(failure ? AGAIN_MS : 0, () => failure && setAgain(again + 1));
  const call = ({ number }: { number: number }) => ({ url: new URL(api.ops.logPath(taskId, number - 1, 1), ROOT).href });
  return (
    <Part title={words.log} hint={`${words.logHint} ${completedAt ? "" : words.follows}`}>
      {from > 0 && <Button kind="small" label={words.earlier} act={() => setFrom(0)} />}
      <div class="panel-part events ops-log">
        <Inspector records={records} failure={failure} none={words.noLog} call={call} more={({ body }) => words.by(body as OpsEvent)} />
      </div>
    </Part>
  );
}
