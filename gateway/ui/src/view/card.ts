/** The agents that the page has read: their cards, and what the gateway tells of them. */

import { signal } from "@preact/signals";
import { useEffect, useState } from "preact/hooks";
import type { Agent } from "../model/api";
import { failureOf } from "../model/failures";
import type { Failure } from "../model/view";
import { api, config } from "../state";

const known = signal<Readonly<Record<string, Agent>>>({});

/** Return an agent as far as it was read, and read it if it was not, or `anew`; with why that failed, and how to repeat it. */
export function useCard(agent: string, anew = false) {
  const [failure, setFailure] = useState<Failure | null>(null);
  const load = () => {
    setFailure(null);
    const keep = (found: Agent) => void (known.value = { ...known.peek(), [agent]: found });
    api.agent(agent).then(keep, (error: unknown) => setFailure(failureOf(error)));
  };
  useEffect(() => {
    if (anew || (agent && !known.peek()[agent])) load();
  }, [agent]);
  return { found: cardOf(agent), failure, load };
}

/** Return how people call an agent. */
export function titleOf(agent: string): string {
  return config.value?.agents.find((one) => one.name === agent)?.title || agent;
}

/** Return an agent as far as it was read. */
export function cardOf(agent: string): Agent | undefined {
  return known.value[agent];
}
