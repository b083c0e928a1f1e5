/** Short messages for what has no place of its own in the page. Failures stay until dismissed, the rest fades. */

import { signal } from "@preact/signals";
import type { Failure } from "../model/view";
import { strings } from "../strings";
import { IconButton } from "./icons";

interface Toast {
  readonly number: number;
  readonly text: string;
  readonly code: string;
  readonly action?: { readonly label: string; readonly run: () => void };
}

const toasts = signal<readonly Toast[]>([]);
let count = 0;

/** Show a message for `ms`, with an action if one is given; a message with a `code` stays until it is dismissed. */
export function toast(text: string, given: { code?: string; action?: Toast["action"]; ms?: number } = {}): void {
  const number = ++count;
  toasts.value = [...toasts.value, { number, text, code: given.code ?? "", ...(given.action ? { action: given.action } : {}) }];
  if (!given.code) setTimeout(() => dismiss(number), given.ms ?? 4000);
}

/** Show a failure that has no place in the page. */
export function toastFailure(failure: Failure): void {
  toast(words(failure).join(" "), { code: failure.code });
}

/** Return what happened and what to do, by the code of a failure. */
export function words(failure: Pick<Failure, "code" | "message" | "suggestion">): [string, string] {
  const known = strings.failures[failure.code];
  return known ? [known[0], known[1]] : [sentence(failure.message || failure.code), sentence(failure.suggestion)];
}

/** Return the words of a server as a sentence. */
function sentence(given: string): string {
  return given && given[0]!.toUpperCase() + given.slice(1) + (/[.!?…]$/.test(given) ? "" : ".");
}

function dismiss(number: number, byHand = false): void {
  toasts.value = toasts.value.filter((one) => one.number !== number);
  if (byHand) document.getElementById("message")?.focus();
}

/** The toasts, at the lower end of the page. */
export function Toasts() {
  return (
    <div class="toasts">
      {toasts.value.map((one) => (
        <div key={one.number} class="toast" role={one.code ? "alert" : "status"} data-code={one.code || undefined}>
          <span dir="auto">{one.text}</span>
          {one.action && (
            <button
              type="button"
              class="link"
              onClick={() => {
                one.action?.run();
                dismiss(one.number);
              }}
            >
              {one.action.label}
            </button>
          )}
          <IconButton icon="close" label={strings.chat.dismiss} size={16} onClick={() => dismiss(one.number, true)} />
        </div>
      ))}
    </div>
  );
}
