/** What is read again every few seconds while somebody can see it. */

import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import { failureOf } from "../../model/failures";
import type { Failure } from "../../model/view";
import { config } from "../../state";
import { strings } from "../../strings";
import { Notice } from "../empty";
import { words } from "../toasts";

const EVERY_MS = 5000;
const WORDS_MS = 600;

export interface Polled<T> {
  /** The same object as before if nothing changed; null before the first answer. */
  readonly data: T | null;
  readonly failure: Failure | null;
  /** When `data` was read, in milliseconds since 1970. */
  readonly at: number;
  readonly again: () => void;
}

/** Read something now and every `ms` while the tab is visible; anew, and from nothing, when `name` changes. */
export function usePolled<T>(name: string, load: () => Promise<T>, ms = EVERY_MS): Polled<T> {
  const [state, setState] = useState({ name, data: null as T | null, failure: null as Failure | null, at: 0 });
  const [asked, again] = useState(0);
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    let current = true;
    let busy = false;
    let last = "";
    const read = async () => {
      clearTimeout(timer);
      if (document.hidden || busy || !current) return;
      busy = true;
      const found = await load().then((data) => ({ data, failure: null }), (error: unknown) => ({ data: null, failure: failureOf(error) }));
      busy = false;
      if (!current) return;
      const now = JSON.stringify(found.data);
      setState((before) => {
        const kept = before.name === name ? before.data : null;
        if (found.failure) return { name, data: kept, failure: found.failure, at: before.at };
        return { name, data: now === last && kept ? kept : found.data, failure: null, at: Date.now() };
      });
      if (!found.failure) last = now;
      timer = setTimeout(() => void read(), ms);
    };
    const shown = () => void read();
    void read();
    document.addEventListener("visibilitychange", shown);
    return () => {
      current = false;
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", shown);
    };
  }, [name, ms, asked]);
  const fresh = state.name === name;
  return { data: fresh ? state.data : null, failure: fresh ? state.failure : null, at: state.at, again: () => again(asked + 1) };
}

/** Show what was read; before that that it is read, or why it is not. */
export function Shown<T>({ of, wait, children }: { of: Polled<T>; wait: string; children: (data: T) => ComponentChildren }) {
  const { data, failure, at, again } = of;
  if (failure && (failure.code === "OPERATORS_ONLY" || failure.status === 403)) return <Refused />;
  if (data === null && failure?.status === 404) return <Notice title={strings.ops.missingTitle} text={strings.ops.missing} />;
  if (data === null)
    return failure ? (
      <Notice title={words(failure)[0]} text={words(failure)[1]} code={failure.code}>
        <button type="button" class="button primary" onClick={again}>{strings.ops.again}</button>
      </Notice>
    ) : (
      <Waiting text={wait} />
    );
  return (
    <>
      {failure && (
        <p class="ops-stale" role="alert" data-code={failure.code}>
          <span>{words(failure)[0]} {strings.ops.stale(new Date(at).toLocaleTimeString())}</span>
          <button type="button" class="button small" onClick={again}>{strings.ops.again}</button>
        </p>
      )}
      {children(data)}
    </>
  );
}

/** Say that something is under way, once it takes long enough to be noticed. */
export function Waiting({ text }: { text: string }) {
  const [late, setLate] = useState(false);
  useEffect(() => {
    const soon = setTimeout(() => setLate(true), WORDS_MS);
    return () => clearTimeout(soon);
  }, []);
  return <p class="ops-waiting" role="status">{late && <><span class="spinner" /> {text}</>}</p>;
}

/** Explain who may see this part, and what makes one an operator. */
export function Refused() {
  return (
    <Notice title={strings.ops.refusedTitle} text={strings.ops.refused(config.value?.caller?.user ?? "")}>
      <pre tabIndex={0} dir="ltr">{strings.ops.refusedScope}</pre>
      <p>{strings.ops.refusedHint}</p>
    </Notice>
  );
}
