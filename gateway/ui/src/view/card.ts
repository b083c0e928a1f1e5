/** The agents that the page has read: their cards, and what the gateway tells of them. */

import { signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import type { Agent } from "../model/api";
import { api } from "../state";

const known = signal<Readonly<Record<string, Agent>>>({});

/** Return an agent as far as it was read, and read it if it was not. */
export function useCard(agent: string): Agent | undefined {
  useEffect(() => {
    if (agent && !known.peek()[agent]) void readCard(agent).catch(() => undefined);
  }, [agent]);
  return cardOf(agent);
}

/** Read an agent anew. Raise Failed. */
export async function readCard(agent: string): Promise<void> {
  const found = await api.agent(agent);
  known.value = { ...known.peek(), [agent]: found };
}

/** Return an agent as far as it was read. */
export function cardOf(agent: string): Agent | undefined {
  return known.value[agent];
}
