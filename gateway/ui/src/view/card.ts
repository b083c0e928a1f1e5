/** The agents that the page has read: their cards, and what the gateway tells of them. */

import { signal } from "@preact/signals";
import { useEffect, useState } from "preact/hooks";
import type { Agent } from "../model/api";
import { type Failure, failureOf } from "../model/http";
import { api, config } from "../state";
import { strings } from "../strings";
import { readAgents } from "./chosen";

/** The agents that were read, by their names. */
export const cards = signal<ReadonlyMap<string, Agent>>(new Map());

/** The names of agents that are not served. */
const gone = signal<ReadonlySet<string>>(new Set());

/** Return whether an agent was looked for, and is not served. */
export const isAgentGone = (agent: string): boolean => gone.value.has(agent);

/** Return an agent as far as it was read, and read it if it was not, or `anew`; with why that failed, and how to repeat it. */
export function useCard(agent: string, anew = false) {
  const [failure, setFailure] = useState<Failure | null>(null);
  const load = async () => {
    const found = await api.agent(agent).catch(failureOf);
    const failure = "code" in found ? found : null;
    setFailure(failure);
    const others = [...gone.peek()].filter((one) => one !== agent);
    gone.value = new Set(failure?.code === "AGENT_NOT_FOUND" ? [...others, agent] : others);
    if ("code" in found) return;
    cards.value = new Map(cards.peek()).set(agent, found);
    // It came to be after the page was loaded.
    if (config.peek()?.agents.every(({ name }) => name !== agent)) void readAgents();
  };
  useEffect(() => {
    if (anew || (agent && !cards.peek().has(agent))) void load();
  }, [agent]);
  return { found: cards.value.get(agent), failure, load };
}

/** Return how people call an agent: by its title, with its name where another one has the same title. */
export function titleOf(agent: string): string {
  const agents = config.value?.agents ?? [];
  const title = agents.find(({ name }) => name === agent)?.title || agent;
  const shared = agents.some((one) => one.name !== agent && (one.title || one.name) === title);
  return shared ? strings.agents.named(title, agent) : title;
}
