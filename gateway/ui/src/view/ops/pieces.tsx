/** Pieces of the operators' view: links, states and tables. */

import { computed } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { type OpsState, type Place, queryOf, readPlace } from "../../model/ops";
import { address, route } from "../../state";
import { strings } from "../../strings";
import { Part } from "../controls";
import { PageLink } from "../links";

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
