/** Short messages for what has no place of its own in the page. Failures stay until dismissed, the rest fades. */

import { signal } from "@preact/signals";
import { failureOf } from "../model/failures";
import type { Failure, TaskInfo } from "../model/view";
import { strings } from "../strings";
import { Button, IconButton } from "./icons";

type Given = { code?: string; action?: { label: string; run: () => void }; ms?: number };

const toasts = signal<readonly (Given & { number: number; text: string })[]>([]);
let count = 0;

/** Show a message for `ms`, with an action if one is given; a message with a `code` stays until it is dismissed. */
export function toast(text: string, given: Given = {}): void {
  const number = ++count;
  // The same failure once; of two sessions of one title each has its Undo.
  if (given.code && toasts.peek().some((one) => one.text === text)) return;
  toasts.value = [...toasts.value, { ...given, number, text }];
  if (!given.code) setTimeout(dismiss, given.ms ?? 4000, number);
}

/** Show the failure of an act, which is named as its button is, that has no place in the page. */
export function toastFailure(failure: Failure, act: string): void {
  toast(`${act}: ${words(failure).join(" ")}`, { code: failure.code });
}

/** Return what shows an error of an act that has no place in the page. */
export const toastError = (act: string) => (error: unknown) => toastFailure(failureOf(error), act);

/** Return what happened and what to do, by the code of a failure. */
export function words({ code, message, suggestion = "" }: Partial<Failure> & { code: string }): readonly [string, string] {
  return strings.failures[code] ?? [sentence(message || code), sentence(suggestion)];
}

/** Return why a task did not complete, and what to do. */
export function reasonOf({ error, state }: TaskInfo): readonly [string, string | undefined] {
  const [what, todo] = words({ code: error });
  return [what, todo || strings.endings[state]];
}

/** Return the words of a server as a sentence. */
function sentence(given: string): string {
  return given && given[0]!.toUpperCase() + given.slice(1) + (/[.!?…]$/.test(given) ? "" : ".");
}

function dismiss(number: number, then?: () => void): void {
  toasts.value = toasts.value.filter((one) => one.number !== number);
  then?.();
}

/** The toasts, the newest above the others. */
export function Toasts() {
  return (
    <div class="toasts">
      {toasts.value.toReversed().map(({ number, text, code, action }) => (
        <div key={number} class="toast" role={code ? "alert" : "status"} data-code={code}>
          <span dir="auto">{text}</span>
          {action && <Button kind="small" label={action.label} act={() => dismiss(number, action.run)} />}
          <IconButton icon="close" label={strings.chat.dismiss} size={16} onClick={() => dismiss(number)} />
        </div>
      ))}
    </div>
  );
}
