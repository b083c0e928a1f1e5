/** Where the inspector's records come from: what this tab has sent and received, or the log of a task. */

import { useEffect, useReducer, useRef } from "preact/hooks";
import { failureOf } from "../../model/failures";
import { logged } from "../../model/inspected";
import { sleep } from "../../model/stream";
import type { Failure, WireRecord } from "../../model/view";
import { api, session } from "../../state";

const PAINT_MS = 200;
/** A log that says nothing for so long is read again later: it must not hold one of the browser's few connections. */
const QUIET_MS = 1000;
const AGAIN_MS = 2000;

interface Log {
  readonly task: string;
  readonly all: WireRecord[];
  failure: Failure | null;
}

/** Return the records of a task's log, or without a task those of this tab; they grow while they are shown. */
export function useRecords(task: string): { all: readonly WireRecord[]; total: number; failure: Failure | null } {
  const [, paint] = useReducer((count: number, _: void) => count + 1, 0);
  const kept = useRef<Log>({ task: "", all: [], failure: null });
  if (kept.current.task !== task) kept.current = { task, all: [], failure: null };
  const log = kept.current;
  const open = session.value;
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const wake = () => {
      timer ??= setTimeout(() => {
        timer = undefined;
        paint();
      }, PAINT_MS);
    };
    const ends = new AbortController();
    const stop = task ? undefined : open?.records.total.subscribe(wake);
    if (task) void follow(log, ends.signal, wake);
    return () => {
      clearTimeout(timer);
      ends.abort();
      stop?.();
    };
  }, [task, open]);
  return task ? { ...log, total: log.all.length } : { all: open?.records.list ?? [], total: open?.records.total.peek() ?? 0, failure: null };
}

/** Read the log of a task to its end, over short connections. */
async function follow(log: Log, signal: AbortSignal, changed: () => void): Promise<void> {
  for (let cursor = ""; !signal.aborted; ) {
    const quiet = new AbortController();
    let timer = setTimeout(() => quiet.abort(), AGAIN_MS);
    try {
      for await (const event of api.events(log.task, cursor, AbortSignal.any([signal, quiet.signal]))) {
        clearTimeout(timer);
        timer = setTimeout(() => quiet.abort(), QUIET_MS);
        cursor = event.cursor;
        log.all.push(logged(log.task, event));
        changed();
      }
    } catch (error) {
      if (!signal.aborted && !quiet.signal.aborted) {
        log.failure = failureOf(error);
        return changed();
      }
    }
    clearTimeout(timer);
    if (!quiet.signal.aborted) return;
    await sleep(AGAIN_MS, signal);
  }
}
