/** Short messages for what has no place of its own in the page. Failures stay until dismissed, the rest fades. */

import { signal } from "@preact/signals";
import { failureOf } from "../model/failures";
import type { Failure, TaskInfo } from "../model/view";
import { strings } from "../strings";
import { focusBox } from "./acts";
import { IconButton } from "./icons";

type Given = { code?: string; action?: { label: string; run: () => void }; ms?: number };

const toasts = signal<readonly (Given & { number: number; text: string })[]>([]);
let count = 0;

/** Show a message for `ms`, with an action if one is given; a message with a `code` stays until it is dismissed. */
export function toast(text: string, given: Given = {}): void {
  const number = ++count;
  toasts.value = [...toasts.value, { ...given, number, text }];
  if (!given.code) setTimeout(dismiss, given.ms ?? 4000, number);
}

/** Show a failure that has no place in the page. */
export function toastFailure(failure: Failure): void {
  toast(words(failure).join(" "), { code: failure.code });
}

/** Show what was thrown and has no place in the page. */
export const toastError = (error: unknown) => toastFailure(failureOf(error));

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

function dismiss(number: number): void {
  toasts.value = toasts.value.filter((one) => one.number !== number);
}

/** The toasts, at the lower end of the page. */
export function Toasts() {
  return (
    <div class="toasts">
      {toasts.value.map(({ number, text, code, action }) => {
        const close = (then: () => void) => () => {
          then();
          dismiss(number);
        };
        return (
          <div key={number} class="toast" role={code ? "alert" : "status"} data-code={code}>
            <span dir="auto">{text}</span>
            {action && <button type="button" class="link" onClick={close(action.run)}>{action.label}</button>}
            <IconButton icon="close" label={strings.chat.dismiss} size={16} onClick={close(focusBox)} />
          </div>
        );
      })}
    </div>
  );
}
