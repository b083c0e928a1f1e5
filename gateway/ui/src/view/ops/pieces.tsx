/** What the operators' view is made of: links, states and times, sections, tables and lists of facts. */

import { computed } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { type OpsState, type Place, queryOf, readPlace } from "../../model/ops";
import { address, route } from "../../state";
import { strings } from "../../strings";
import { Part } from "../controls";
import { PageLink } from "../sidebar";

/** What the address names: what is filtered is in it, so that it can be shared. */
export const place = computed<Place>(() => readPlace(new URLSearchParams(route.value.name === "ops" ? location.search : "")));

/** Return the address of a part of the operators' view. */
export function placeAddress(to: Partial<Place>): string {
  return address({ name: "ops" }) + queryOf(to);
}

/** A link to a part of the operators' view, or to another address of the page. */
export function To({ place: to = {}, ...rest }: Partial<Parameters<typeof PageLink>[0]> & { place?: Partial<Place> }) {
  return <PageLink href={placeAddress(to)} {...rest} />;
}

/** A link to the tasks of an executor. */
export function OfExecutor({ id, children = <code dir="ltr">{id}</code> }: { id: string; children?: ComponentChildren }) {
  return <To place={{ executor: id }}>{children}</To>;
}

/** The state of a task, with its colour. */
export function StateMark({ state, children = strings.ops.states[state] }: { state: OpsState; children?: string }) {
  return <span><span class="mark" data-state={state} /> {children}</span>;
}

/** A column: its head, what a row has in it, and a class of its cells. */
type Column<T> = readonly [head: string, cell: (row: T) => ComponentChildren, kind?: string];

/**
 * A table with a row for each of `rows`, whose first cell names it; without rows it says `none`. `id` tells one row from
 * another. With a `hint` it is a section. A table that is wider than its place scrolls in it, or becomes cards.
 */
export function Columns<T>({ name, hint, rows, columns, id, kind = "ops-cards", none }: {
  name: string; hint?: string; kind?: string; rows: readonly T[]; columns: readonly Column<T>[]; none?: ComponentChildren;
  id: (row: T) => string | number | null;
}) {
  const table = !rows.length ? <p class="aside">{none}</p> : (
    <div class="table" role="region" aria-label={name} tabIndex={0}>
      <table class={kind}>
        <caption class="sr-only">{name}</caption>
        <thead>
          <tr>{columns.map(([head]) => <th key={head} scope="col">{head}</th>)}</tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={id(row)} data-id={id(row)}>
              {columns.map(([head, cell, of], index) => {
                const given = { class: of, dir: "auto" } as const;
                return index ? <td key={head} data-label={head} {...given}>{cell(row)}</td> : <th scope="row" {...given}>{cell(row)}</th>;
              })}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
  return hint === undefined ? table : <Part title={name} hint={hint}>{table}</Part>;
}
