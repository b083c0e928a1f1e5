/** Short messages for what has no place of its own in the page. Failures stay until dismissed, the rest fades. */

import { signal } from "@preact/signals";
import { failureOf } from "../model/http";
import type { Failure, TaskInfo } from "../model/view";
import { strings } from "../strings";
import { Button, IconButton } from "./controls";

type Given = { code?: string; action?: { label: string; run: () => void } | undefined; ms?: number; until?: Promise<unknown> };

type Toast = Given & { text: string };

const toasts = signal<readonly Toast[]>([]);

/** Show a message for `ms`, or `until` something is done; with an action if one is given. A `code` stays until it is dismissed. */
export function toast(text: string, given: Given = {}): void {
  const one = { ...given, text };
  // The same failure once; of two sessions of one title each has its Undo.
  if (given.code && toasts.peek().some((other) => other.text === text)) return;
  toasts.value = [...toasts.value, one];
  const end = () => dismiss(one);
  if (given.until) void given.until.then(end, end);
  else if (!given.code) setTimeout(end, given.ms ?? 4000);
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

function dismiss(one: Toast, then?: () => void): void {
  toasts.value = toasts.value.filter((other) => other !== one);
  then?.();
}

/** The toasts, the newest above the others. */
export function Toasts() {
  return (
    <div class="toasts">
      {toasts.value.toReversed().map((one) => (
        <div key={one} class="toast" role={one.code ? "alert" : "status"} data-code={one.code}>
          <span dir="auto">{one.text}</span>
          {one.action && <Button kind="small" label={one.action.label} act={() => dismiss(one, one.action?.run)} />}
          <IconButton icon="close" label={strings.chat.dismiss} size={16} onClick={() => dismiss(one)} />
        </div>
      ))}
    </div>
  );
}
