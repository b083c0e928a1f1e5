/** The agents that the page has read: their cards, and what the gateway tells of them. */

import { signal } from "@preact/signals";
import { useEffect, useState } from "preact/hooks";
import type { Agent } from "../model/api";
import { type Failure, failureOf } from "../model/http";
import { api, config } from "../state";

/** The agents that were read, by their names. */
export const cards = signal<ReadonlyMap<string, Agent>>(new Map());

/** Return an agent as far as it was read, and read it if it was not, or `anew`; with why that failed, and how to repeat it. */
export function useCard(agent: string, anew = false) {
  const [failure, setFailure] = useState<Failure | null>(null);
  const load = async () => {
    const found = await api.agent(agent).catch(failureOf);
    setFailure("code" in found ? found : null);
    if (!("code" in found)) cards.value = new Map(cards.peek()).set(agent, found);
  };
  useEffect(() => {
    if (anew || (agent && !cards.peek().has(agent))) void load();
  }, [agent]);
  return { found: cards.value.get(agent), failure, load };
}

/** Return how people call an agent. */
export function titleOf(agent: string): string {
  return config.value?.agents.find((one) => one.name === agent)?.title || agent;
}
