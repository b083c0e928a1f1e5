/** Task states and their spellings (M2). */

import type { State } from "./view";

export const ACTIVE: ReadonlySet<State> = new Set(["submitted", "working"]);
export const PAUSED: ReadonlySet<State> = new Set(["input-required", "auth-required"]);
export const TERMINAL: ReadonlySet<State> = new Set(["completed", "failed", "canceled", "rejected"]);
export const AT_REST: ReadonlySet<State> = new Set([...PAUSED, ...TERMINAL]);

const SPELLINGS: Readonly<Record<string, State>> = {
  submitted: "submitted",
  pending: "submitted",
  working: "working",
  running: "working",
  "input-required": "input-required",
  "auth-required": "auth-required",
  completed: "completed",
  success: "completed",
  failed: "failed",
  error: "failed",
  canceled: "canceled",
  cancelled: "canceled",
  rejected: "rejected",
};

/** Return the state for a spelling in any case: of A2A 1.0, of 0.3, or of another runtime; else `unknown`. */
export function stateOf(spelling: unknown): State {
  const word = String(spelling).toLowerCase().replace(/^task_state_/, "").replaceAll("_", "-");
  return Object.hasOwn(SPELLINGS, word) ? (SPELLINGS[word] ?? "unknown") : "unknown";
}
