/** Data that is read again every few seconds while somebody can see it. */

import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { type Failure, failureOf } from "../model/http";
import { config } from "../state";
import { strings } from "../strings";
import { Notice } from "./chat";
import { useEvery } from "./controls";
import { secondsTime } from "./format";
import { words } from "./toasts";

const said = strings.ops;
const EVERY_MS = 5000;

type Shown<T> = Readonly<{ data?: T | undefined; failure: Failure | null; at: string }>;

/**
 * Show what `load` returns, read now, whenever `turn` changes, and every few seconds while the tab is visible, less often if
 * it is many pages; before that `data` or, without any, that it is read, or why it could not be. What was read stays if it
 * cannot be read again.
 */
export function Polled<T>({ load, data: given, pages = 1, turn = pages, every = EVERY_MS * pages, children }: {
  load: (signal: AbortSignal) => Promise<T>; data?: T; pages?: number; turn?: unknown; every?: number;
  children: (data: T, at: string, again: () => void) => ComponentChildren;
}) {
  const [{ data, failure, at }, setState] = useState<Shown<T>>({ data: given, failure: null, at: "" });
  const reading = useRef<AbortController | null>(null);
  const again = async () => {
    reading.current?.abort();
    const mine = (reading.current = new AbortController());
    const found = await load(mine.signal).then(
      (data) => ({ data, failure: null, at: secondsTime(Date.now()) }),
      (error: unknown) => ({ failure: failureOf(error) }),
    );
    if (mine.signal.aborted) return;
    reading.current = null;
    setState((before) => ({ ...before, ...found }));
  };
  useEvery(every, () => reading.current ?? again());
  useEffect(() => {
    void again();
    return () => reading.current?.abort();
  }, [turn]);
  if (failure?.status === 403) return <Refused />;
  if (failure?.status === 404) return <Notice title={said.missingTitle} text={said.missing} />;
  const [what, todo] = words(failure ?? { code: "" });
  return (
    <>
      {failure && (
        <p class="failure" role="alert" data-code={failure.code}>{what} {at ? said.stale(at) : todo}</p>
      )}
      {!data && !failure && <p class="progress" role="status"><span class="spinner" /> {said.loading}</p>}
      {data && children(data, at, () => void again())}
    </>
  );
}

/** Explain who may see this part, and what makes one an operator. */
export function Refused() {
  return (
    <Notice title={said.refusedTitle} text={said.refused(config.value?.caller?.user ?? "")}>
      <pre tabIndex={0} dir="ltr">{said.refusedScope}</pre>
      <p>{said.refusedHint}</p>
    </Notice>
  );
}
