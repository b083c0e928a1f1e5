/** Sections of the operators' view, with their tables and lists of facts. */

import { type ComponentChildren, Fragment } from "preact";

/** A section with a heading, and what it is about. */
export function Part({ title, hint, children }: { title: string; hint?: ComponentChildren; children: ComponentChildren }) {
  return (
    <section class="ops-part">
      <h2>{title}</h2>
      {hint && <p class="aside">{hint}</p>}
      {children}
    </section>
  );
}

/** Names with their values, and more of these; those without a value are left out. */
export function Facts({ kind, rows }: { kind: string; rows: readonly (readonly [name: string, ...ComponentChildren[]])[] }) {
  return (
    <dl class={kind}>
      {rows.map(([name, ...values]) => values[0] && (
        <div key={name}>
          <dt>{name}</dt>
          {values.map((value, index) => <dd key={index} dir="auto">{value}</dd>)}
        </div>
      ))}
    </dl>
  );
}

/** A column: its head, what a row has in it, and a class of its cells. */
type Column<T> = readonly [head: ComponentChildren, cell: (row: T, index: number) => ComponentChildren, kind?: string];

/**
 * A table with a row for each of `rows`, whose first cell names it, and with what is `below` a row; without rows it says
 * `none`. `id` tells one row from another, `marks` are the attributes of its `tr`. A table that is wider than its place
 * scrolls in it, or becomes cards.
 */
export function Columns<T>(props: {
  name: string;
  rows: readonly T[];
  columns: readonly Column<T>[];
  id: (row: T) => string | number | null;
  marks?: (row: T) => Record<string, string | number | undefined>;
  kind?: string;
  none?: ComponentChildren;
  below?: (row: T) => ComponentChildren;
}) {
  const { name, rows, columns, id, marks, kind = "ops-cards", none, below } = props;
  if (!rows.length) return <p class="aside">{none}</p>;
  return (
    <div class="ops-scroll" role="region" aria-label={name} tabIndex={0}>
      <table class={kind}>
        <caption class="sr-only">{name}</caption>
        <thead>
          <tr>{columns.map(([head], index) => <th key={index} scope="col">{head}</th>)}</tr>
        </thead>
        <tbody>
          {rows.map((row, at) => (
            <Fragment key={id(row)}>
              <tr {...marks?.(row)}>
                {columns.map(([head, cell, of], index) => {
                  const Cell = index ? "td" : "th";
                  const names = index ? { "data-label": typeof head === "string" ? head : undefined } : { scope: "row" as const };
                  return <Cell key={index} {...names} class={of} dir="auto">{cell(row, at)}</Cell>;
                })}
              </tr>
              {below?.(row)}
            </Fragment>
          ))}
        </tbody>
      </table>
    </div>
  );
}
