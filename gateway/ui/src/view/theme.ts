/** Light, dark, or as the system says; kept in this browser. */

import { signal } from "@preact/signals";

const ORDER = ["system", "light", "dark"] as const;
const KEY = "taskplane.theme";
export type Theme = (typeof ORDER)[number];

export const theme = signal<Theme>(stored());
apply(theme.peek());

/** Go on to the next theme. */
export function nextTheme(): void {
  const next = ORDER[(ORDER.indexOf(theme.value) + 1) % ORDER.length]!;
  theme.value = next;
  apply(next);
  try {
    localStorage.setItem(KEY, next);
  } catch {
    // Storage may be blocked; the theme holds for this page.
  }
}

function apply(next: Theme): void {
  document.documentElement.style.colorScheme = next === "system" ? "light dark" : next;
}

function stored(): Theme {
  try {
    return ORDER.find((one) => one === localStorage.getItem(KEY)) ?? "system";
  } catch {
    return "system";
  }
}
