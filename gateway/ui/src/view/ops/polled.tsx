/** What is read again every few seconds while somebody can see it. */

import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { failureOf } from "../../model/failures";
import type { Failure } from "../../model/view";
import { config } from "../../state";
import { strings } from "../../strings";
import { useEvery } from "../controls";
import { Notice } from "../empty";
import { Button } from "../icons";
import { words } from "../toasts";

const said = strings.ops;
const EVERY_MS = 5000;
type Shown<T> = Readonly<{ data?: T | undefined; failure: Failure | null; at: number }>;

/**
 * Show what `load` returns, read now, whenever `turn` changes, and every `ms` while the tab is visible; before that, that it
 * is read, or why it could not be. What was read stays if it cannot be read again.
 */
export function Polled<T>({ load, turn, ms = EVERY_MS, children }: {
  load: (before: T | undefined) => Promise<T>; turn?: unknown; ms?: number;
  children: (data: T, at: string, again: () => void) => ComponentChildren;
}) {
  const [{ data, failure, at }, setState] = useState<Shown<T>>({ failure: null, at: 0 });
  const [asked, setAsked] = useState(0);
  const reading = useRef<unknown>(null);
  const read = async () => {
    if (document.hidden || reading.current) return;
    const mine = (reading.current = {});
    const found = await load(data).then(
      (data) => ({ data, failure: null, at: Date.now() }),
      (error: unknown) => ({ failure: failureOf(error) }),
    );
    if (reading.current !== mine) return;
    reading.current = null;
    setState((before) => ({ ...before, ...found }));
  };
  useEvery(ms, read);
  useEffect(() => {
    void read();
    return () => (reading.current = null);
  }, [turn, ms, asked]);
  if (failure?.status === 403) return <Refused />;
  if (failure?.status === 404) return <Notice title={said.missingTitle} text={said.missing} />;
  const again = () => setAsked(asked + 1);
  const [what, todo] = words(failure ?? { code: "" });
  const when = new Date(at).toLocaleTimeString();
  return (
    <>
      {failure && (
        <p class="ops-stale" role="alert" data-code={failure.code}>
          <span>{what} {data ? said.stale(when) : todo}</span>
          <Button kind="small" label={said.again} act={again} />
        </p>
      )}
      {!data && !failure && <p class="ops-waiting" role="status"><span class="spinner" /> {said.loading}</p>}
      {data && children(data, when, again)}
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
