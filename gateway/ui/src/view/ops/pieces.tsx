/** What the operators' view is made of: links, states and times, sections, tables and lists of facts. */

import { computed } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { type OpsState, type Place, placeQuery, readPlace } from "../../model/ops";
import { address, route } from "../../state";
import { strings } from "../../strings";
import { Part } from "../controls";
import { PageLink } from "../sidebar";

/** What the address names: what is filtered is in it, so that it can be shared. */
export const place = computed<Place>(() => readPlace(new URLSearchParams(route.value.name === "ops" ? location.search : "")));

/** Return the address of a part of the operators' view. */
export function placeAddress(to: Partial<Place>): string {
  return address({ name: "ops" }) + placeQuery(to);
}

/** A link to a part of the operators' view, or to another address of the page. */
export function To({ place: to = {}, ...rest }: Partial<Parameters<typeof PageLink>[0]> & { place?: Partial<Place> }) {
  return <PageLink href={placeAddress(to)} {...rest} />;
}

/** A link to the tasks of an executor, so many unless it is given in other words. */
export function OfExecutor({ id, leases = 0, children }: { id: string; leases?: number; children?: string }) {
  return <To place={{ view: "tasks", executor: id }}>{children ?? strings.ops.showWork(leases)}</To>;
}

/** The state of a task, with its colour. */
export function StateMark({ state, children = strings.ops.states[state] }: { state: OpsState; children?: string }) {
  return <span class="ops-state" data-state={state}>{children}</span>;
}

/** A column: its head, what a row has in it, a class of its cells, and what they are called in cards if the head is no text. */
type Column<T> = readonly [head: ComponentChildren, cell: (row: T) => ComponentChildren, kind?: string, label?: string];

/**
 * A table with a row for each of `rows`, whose first cell names it; without rows it says `none`. `id` tells one row from another, `marks` are the attributes of its `tr`. With a `hint` it is a section. A table
 * that is wider than its place scrolls in it, or becomes cards.
 */
export function Columns<T>({ name, hint, rows, columns, id, marks, kind = "ops-cards", none }: {
  name: string; hint?: string; kind?: string; rows: readonly T[]; columns: readonly Column<T>[]; none?: ComponentChildren;
  id: (row: T) => string | number | null;
  marks?: (row: T) => Readonly<Record<string, string | number | undefined>>;
}) {
  const table = !rows.length ? <p class="aside">{none}</p> : (
    <div class="ops-scroll" role="region" aria-label={name} tabIndex={0}>
      <table class={kind}>
        <caption class="sr-only">{name}</caption>
        <thead>
          <tr>{columns.map(([head], index) => <th key={index} scope="col">{head}</th>)}</tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={id(row)} {...marks?.(row)}>
              {columns.map(([head, cell, of, label = head], index) => {
                const Cell = index ? "td" : "th";
                const names = index ? { "data-label": typeof label === "string" ? label : undefined } : { scope: "row" as const };
                return <Cell key={index} {...names} class={of} dir="auto">{cell(row)}</Cell>;
              })}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
  return hint === undefined ? table : <Part kind="ops-part" title={name} hint={hint}>{table}</Part>;
}
