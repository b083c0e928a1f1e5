/** Light, dark, or as the system says; kept in this browser. */

import { effect, signal } from "@preact/signals";
import { kept } from "../state";

const ORDER = ["system", "light", "dark"] as const;
const KEY = "taskplane.theme";

export const theme = signal(ORDER.find((one) => one === kept.get(KEY)) ?? "system");

/** Go on to the next theme. */
export function nextTheme(): void {
  theme.value = ORDER[(ORDER.indexOf(theme.value) + 1) % ORDER.length]!;
}

effect(() => {
  kept.set(KEY, theme.value);
  document.documentElement.style.colorScheme = theme.value === "system" ? "light dark" : theme.value;
});
