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
