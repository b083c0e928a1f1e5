/** Where the inspector's records come from: what this tab has sent and received, or the log of a task. */

import { useEffect, useMemo, useState } from "preact/hooks";
import type { LogEvent } from "../../model/api";
import { failureOf } from "../../model/failures";
import type { SseEvent } from "../../model/http";
import { logged } from "../../model/inspected";
import { Records } from "../../model/records";
import { follow } from "../../model/stream";
import type { Failure } from "../../model/view";
import { api, session } from "../../state";
import { useEvery } from "../controls";

const PAINT_MS = 200;
/** A log that says nothing for so long is read again later: it must not hold one of the browser's few connections. */
const QUIET_MS = 1000;
const PAUSES = { first: 2000, most: 2000 };

/** Return the records of a task's log, or without a task those of this tab; they grow while they are shown. */
export function useRecords(task: string) {
  const [, paint] = useState({});
  const [failure, setFailure] = useState<Failure | null>(null);
  const open = session.value;
  const records = useMemo(() => (task || !open ? new Records() : open.records), [task, open]);
  const { total } = records;
  useEvery(PAINT_MS, () => total === records.total || paint({}));
  useEffect(() => {
    const ends = new AbortController();
    setFailure(null);
    // Over short connections, to the end of the log.
    const stream = {
      open: (cursor: string) => api.events(task, cursor, ends.signal, QUIET_MS),
      take({ id: cursor = "", data }: SseEvent) {
        records.keep(logged(task, { cursor, ...(JSON.parse(data) as Omit<LogEvent, "cursor">) }));
        setFailure(null);
        return false;
      },
      ended: () => Promise.resolve(true),
      lost: (failure: Failure) => setFailure(failure.code === "TIMED_OUT" ? null : failure),
    };
    if (task) void follow(stream, "", ends.signal, PAUSES).catch((error: unknown) => setFailure(failureOf(error)));
    return () => ends.abort();
  }, [records]);
  return { records, failure };
}
