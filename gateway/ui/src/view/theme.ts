/** Light, dark, or as the system says; kept in this browser. */

import { computed, effect, signal } from "@preact/signals";
import { kept } from "../state";

const ORDER = ["system", "light", "dark"] as const;
const KEY = "taskplane.theme";

const chosen = signal(kept.get(KEY));
export const theme = computed(() => ORDER.find((one) => one === chosen.value) ?? "system");

/** Go on to the next theme. */
export function nextTheme(): void {
  chosen.value = ORDER[(ORDER.indexOf(theme.value) + 1) % ORDER.length]!;
  kept.set(KEY, chosen.value);
}

effect(() => {
  document.documentElement.style.colorScheme = theme.value === "system" ? "light dark" : theme.value;
});
