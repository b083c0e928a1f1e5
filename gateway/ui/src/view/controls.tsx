/** Small things that several views are made of: icons, buttons, lists, and what they do. */

import { type ComponentChildren, type ComponentProps, h } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { strings } from "../strings";
import { fullTime, time } from "./format";
import * as glyphs from "./glyphs";

export type IconName = keyof typeof glyphs;

/** Draw an icon in the colour of the text. It says nothing to a screen reader: the control around it has the name. */
export function Icon({ name, size = 18 }: { name: IconName; size?: number }) {
  return (
    <svg class="icon" data-icon={name} width={size} height={size} viewBox="0 0 24 24" aria-hidden="true">
      {glyphs[name].map(([shape, of], key) => h(shape, { key, ...of }))}
    </svg>
  );
}

type Given = Omit<ComponentProps<"button">, "class" | "label"> & { label: string; icon?: IconName; size?: number; class?: string };

/** A button with words, and an icon if one is given; `kind` is more of its class. */
export function Button({ label, icon, act, kind = "", ...rest }: Given & { act: () => void; kind?: string }) {
  return (
    <button type="button" class={`button ${kind}`} onClick={act} {...rest}>
      {icon && <Icon name={icon} size={kind === "small" ? 14 : 16} />} {label}
    </button>
  );
}

/** A square button with an icon; `label` is its accessible name, and its tooltip if there is no other. */
export function IconButton({ icon, label, size = 18, class: more = "", ...rest }: Given & { icon: IconName }) {
  return (
    <button type="button" class={`icon-button ${more}`} aria-label={label} title={label} {...rest}>
      <Icon name={icon} size={size} />
    </button>
  );
}

/** A small button with a word, and an icon if one is given. */
export function Act({ off, pressed, ...rest }: Given & { act: () => void; off?: boolean; pressed?: boolean }) {
  return <Button kind="small" disabled={off} aria-pressed={pressed} {...rest} />;
}

/** A choice of one value out of some, each with a word. */
export function Choice<Value extends string | number>({ label, value, options, name, act }: {
  label: string; value: Value; options: readonly (readonly [Value, string])[]; name?: string; act?: (value: string) => void;
}) {
  return (
    <select class="field" name={name} aria-label={label} value={value} onChange={(event) => act?.(event.currentTarget.value)}>
      {options.map(([one, word]) => <option key={one} value={one}>{word}</option>)}
    </select>
  );
}

/** Return where the newest of a long list begin, with the one at a place, and the button for earlier ones. */
export function useNewest(count: number, place: number, page = 100): [from: number, button: ComponentChildren] {
  const [most, setMost] = useState(page);
  const from = Math.max(0, Math.min(count - most, place < 0 ? count : place));
  return [from, from > 0 && <Act label={strings.panel.earlier(Math.min(page, from))} act={() => setMost(count - from + page)} />];
}

/** Act every so many milliseconds, 0: never, while the tab can be seen, and whenever it is seen again. */
export function useEvery(ms: number, act: () => unknown): void {
  const latest = useRef(act);
  latest.current = act;
  useEffect(() => {
    const look = () => void (document.hidden || latest.current());
    const timer = ms ? setInterval(look, ms) : undefined;
    document.addEventListener("visibilitychange", look);
    return () => {
      clearInterval(timer);
      document.removeEventListener("visibilitychange", look);
    };
  }, [ms]);
}

/** A time, shown in short unless it is given in other words. */
export function Moment({ at, children = time(at) }: { at: string; children?: string }) {
  return <time dateTime={at} title={fullTime(at)}>{children}</time>;
}

/** The code of a failure, by which it can be looked up; nothing without one. */
export function ErrorCode({ code = "" }: { code?: string | undefined }) {
  return code ? <code class="error-code" dir="ltr">{code}</code> : null;
}

/** A section with a heading, and what it is about. */
export function Part({ title, hint, children }: { title: string; hint?: ComponentChildren; children: ComponentChildren }) {
  return (
    <section>
      <h2>{title}</h2>
      {hint && <p class="aside">{hint}</p>}
      {children}
    </section>
  );
}

/** A list of names with their values, and more of these; those without a value are left out. */
export function Facts({ rows }: { rows: readonly (readonly ComponentChildren[])[] }) {
  return (
    <dl class="facts">
      {rows.map(([name, ...values], row) => values[0] && (
        <div key={row}>
          <dt>{name}</dt>
          {values.map((value, index) => <dd key={index} dir="auto">{value}</dd>)}
        </div>
      ))}
    </dl>
  );
}

/** Let the arrow keys move the focus along the elements that a selector finds. */
export function walk(event: KeyboardEvent, selector: string): void {
  const all = [...(event.currentTarget as Element).querySelectorAll<HTMLElement>(selector)];
  const at = all.indexOf(event.target as HTMLElement);
  const step = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1 }[event.key];
  if (at < 0 || !step || !all[at + step]) return;
  event.preventDefault();
  all[at + step]!.focus();
}

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
