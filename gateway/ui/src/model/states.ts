/** Task states and their spellings (M2). */

import type { State } from "./view";

export const ACTIVE: ReadonlySet<State> = new Set(["submitted", "working"]);
export const PAUSED: ReadonlySet<State> = new Set(["input-required", "auth-required"]);
export const TERMINAL: ReadonlySet<State> = new Set(["completed", "failed", "canceled", "rejected"]);
export const AT_REST: ReadonlySet<State> = new Set([...PAUSED, ...TERMINAL]);

const OTHERS = new Map([["pending", "submitted"], ["running", "working"], ["success", "completed"], ["error", "failed"], ["cancelled", "canceled"]]);

/** Return the state for a spelling in any case: of A2A 1.0, of 0.3, or of another runtime; else `unknown`. */
export function stateOf(spelling: unknown): State {
  const word = String(spelling).toLowerCase().replace(/^task_state_/, "").replaceAll("_", "-");
  return [...ACTIVE, ...AT_REST].find((state) => state === (OTHERS.get(word) ?? word)) ?? "unknown";
}
