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

export interface Records {
  readonly all: readonly WireRecord[];
  /** How many there were, with those that are not kept. */
  readonly total: number;
  readonly failure: Failure | null;
}

/** Return the records of a task's log, or without a task those of this tab; they grow while they are shown. */
export function useRecords(task: string): Records {
  const [, paint] = useReducer((count: number) => count + 1, 0);
  const log = useRef<{ task: string; all: WireRecord[]; failure: Failure | null }>({ task: "", all: [], failure: null });
  if (log.current.task !== task) log.current = { task, all: [], failure: null };
  const open = session.value;
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const wake = () => {
      timer ??= setTimeout(() => {
        timer = undefined;
        paint(undefined);
      }, PAINT_MS);
    };
    const ends = new AbortController();
    const found = log.current;
    if (task)
      read(task, ends.signal, (record) => {
        found.all.push(record);
        wake();
      }).catch((error: unknown) => {
        found.failure = failureOf(error);
        wake();
      });
    const stop = task ? undefined : open?.onRecord(wake);
    return () => {
      clearTimeout(timer);
      ends.abort();
      stop?.();
    };
  }, [task, open]);
  if (task) return { all: log.current.all, total: log.current.all.length, failure: log.current.failure };
  return { all: open?.records ?? [], total: open?.recordCount ?? 0, failure: null };
}

/** Read the log of a task to its end, over short connections. */
async function read(task: string, signal: AbortSignal, take: (record: WireRecord) => void): Promise<void> {
  let cursor = "";
  while (!signal.aborted) {
    const quiet = new AbortController();
    let timer = setTimeout(() => quiet.abort(), AGAIN_MS + QUIET_MS);
    try {
      for await (const event of api.events(task, cursor, AbortSignal.any([signal, quiet.signal]))) {
        clearTimeout(timer);
        timer = setTimeout(() => quiet.abort(), QUIET_MS);
        cursor = event.cursor;
        if (!signal.aborted) take(logged(task, event));
      }
    } catch (error) {
      if (!signal.aborted && !quiet.signal.aborted) throw error;
    }
    clearTimeout(timer);
    if (!quiet.signal.aborted) return;
    await sleep(AGAIN_MS, signal);
  }
}
