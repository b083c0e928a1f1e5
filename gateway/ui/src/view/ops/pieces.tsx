/** What the operators' view is made of: links, states, tables, and what is read again every few seconds while it can be seen. */

import { computed } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { type Failure, failureOf } from "../../model/http";
import { type OpsState, type Place, queryOf, readPlace } from "../../model/ops";
import { address, config, route } from "../../state";
import { strings } from "../../strings";
import { Part, useEvery } from "../controls";
import { Notice } from "../chat";
import { PageLink } from "../sidebar";
import { words } from "../toasts";

const said = strings.ops;
const EVERY_MS = 5000;

/** What the address names: what is filtered is in it, so that it can be shared. */
export const place = computed<Place>(() => readPlace(new URLSearchParams(route.value.name === "ops" ? location.search : "")));

/** Return the address of a part of the operators' view. */
export const placeAddress = (to: Partial<Place>) => address({ name: "ops" }) + queryOf(to);

/** A link to the tasks of an executor. */
export function OfExecutor({ id, children = <code dir="ltr">{id}</code> }: { id: string; children?: ComponentChildren }) {
  return <PageLink href={placeAddress({ executor: id })}>{children}</PageLink>;
}

/** The state of a task, with its colour. */
export function StateMark({ state, children = strings.ops.states[state] }: { state: OpsState; children?: string }) {
  return <span><span class="mark" data-state={state} /> {children}</span>;
}

/** A column: its head, what a row has in it, and a class of its cells. */
type Column<T> = readonly [head: string, cell: (row: T) => ComponentChildren, kind?: string];

/**
 * A section with a table, with a row for each of `rows`, whose first cell names it. `id` tells one row from another. A table
 * that is wider than its place scrolls in it, or becomes cards.
 */
export function Table<T>({ title, hint, kind, rows, id, columns }: {
  title: string; hint: ComponentChildren; kind?: string; rows: readonly T[]; id: (row: T) => string | null; columns: readonly Column<T>[];
}) {
  return (
    <Part title={title} hint={hint}>
      {rows.length > 0 && (
        <div class="table" role="region" aria-label={title} tabIndex={0}>
          <table class={kind} aria-label={title}>
            <thead>
              <tr>{columns.map(([head]) => <th key={head} scope="col">{head}</th>)}</tr>
            </thead>
            <tbody>
              {rows.map((row) => (
                <tr key={id(row)} data-id={id(row)}>
                  {columns.map(([head, cell, of], index) => {
                    const given = { key: head, class: of, dir: "auto" } as const;
                    return index ? <td data-label={head} {...given}>{cell(row)}</td> : <th scope="row" {...given}>{cell(row)}</th>;
                  })}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </Part>
  );
}

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
      (data) => ({ data, failure: null, at: new Date().toLocaleTimeString() }),
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
