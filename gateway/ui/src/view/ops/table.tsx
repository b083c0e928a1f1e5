/** Tables and sections of the operators' view. A table that is wider than its place scrolls in it, or becomes cards. */

import type { ComponentChildren } from "preact";

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

/** A table with its name and the heads of its columns; `children` are its bodies. */
export function Table({ name, head, kind = "ops-cards", children }: { name: string; head: readonly ComponentChildren[]; kind?: string; children: ComponentChildren }) {
  return (
    <div class="ops-scroll" role="region" aria-label={name} tabIndex={0}>
      <table class={kind}>
        <caption class="sr-only">{name}</caption>
        <thead>
          <tr>{head.map((one, index) => <th key={index} scope="col">{one}</th>)}</tr>
        </thead>
        {children}
      </table>
    </div>
  );
}

/** A column: its head, what a row has in it, and a class of its cells. */
export type Column<T> = readonly [head: string, cell: (row: T) => ComponentChildren, kind?: string];

/** A table with a row for each of `rows`, whose first cell names it; `id` tells one from another, `attributes` are those of its `tr`. */
export function Columns<T>({ name, rows, columns, id, attributes, kind }: {
  name: string;
  rows: readonly T[];
  columns: readonly Column<T>[];
  id: (row: T) => string;
  attributes?: (row: T) => Record<string, string>;
  kind?: string;
}) {
  return (
    <Table name={name} head={columns.map(([head]) => head)} {...(kind !== undefined && { kind })}>
      <tbody>
        {rows.map((row) => (
          <tr key={id(row)} {...attributes?.(row)}>
            {columns.map(([head, cell, of], index) => {
              const Cell = index ? "td" : "th";
              return (
                <Cell key={head} {...(index ? { "data-label": head } : { scope: "row" })} class={of} dir="auto">{cell(row)}</Cell>
              );
            })}
          </tr>
        ))}
      </tbody>
    </Table>
  );
}
