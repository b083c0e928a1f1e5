/** Small things that several views are made of. */

import type { ComponentChildren, ComponentProps } from "preact";
import { useEffect, useId, useRef, useState } from "preact/hooks";
import { strings } from "../strings";
import { fullTime, time } from "./format";
import { Button, IconButton, type IconName } from "./icons";

/** A small button with a word, and an icon if one is given. */
export function Act({ off, pressed, ...rest }: { label: string; act: () => void; icon?: IconName; off?: boolean; pressed?: boolean }) {
  return <Button kind="small" disabled={off} aria-pressed={pressed} {...rest} />;
}

/** A dialog, open for as long as it is shown, with its title and a button that closes it; a click beside it does too. */
export function Dialog({ title, close, children, ...rest }: ComponentProps<"dialog"> & { title: string; close: () => void }) {
  const box = useRef<HTMLDialogElement>(null);
  const id = useId();
  useEffect(() => box.current?.showModal(), []);
  const beside = (event: MouseEvent) => event.target === box.current && box.current?.close();
  return (
    <dialog {...rest} ref={box} aria-labelledby={id} onClose={close} onClick={beside}>
      <header>
        <h2 id={id}>{title}</h2>
        <IconButton icon="close" label={strings.chat.close} onClick={() => box.current?.close()} />
      </header>
      {children}
    </dialog>
  );
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
    const ends = new AbortController();
    const look = () => void (document.hidden || latest.current());
    const timer = ms ? setInterval(look, ms) : undefined;
    document.addEventListener("visibilitychange", look, ends);
    return () => {
      clearInterval(timer);
      ends.abort();
    };
  }, [ms]);
}

/** A time, shown in short unless it is given in other words. */
export function Moment({ at, children = time(at) }: { at: string; children?: string }) {
  return <time dateTime={at} title={fullTime(at)}>{children}</time>;
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
export function Facts({ kind = "facts", rows }: { kind?: string; rows: readonly (readonly ComponentChildren[])[] }) {
  return (
    <dl class={kind}>
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
