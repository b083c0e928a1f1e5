/** Warnings, each with what to do, or the news that there are none. */

import type { ComponentChildren } from "preact";
import { Icon } from "../icons";

type Warning = Readonly<{ code: string; message: string; suggestion?: string }>;

/** Show warnings, each with `more`; without any, `none`. */
export function Warnings<T extends Warning>({ name, none, all, more }: {
  name: string; none: string; all: readonly T[]; more?: (one: T) => ComponentChildren;
}) {
  return (
    <ul class="warnings" aria-label={name}>
      {!all.length && <li><Icon name="check" size={16} /> {none}</li>}
      {all.map((one, index) => (
        <li key={index} data-warning={one.code}>
          <Icon name="alert" size={16} />
          <p><strong dir="auto">{one.message}</strong> {one.suggestion} {more?.(one)}</p>
        </li>
      ))}
    </ul>
  );
}
