/** What the page reads of an agent's card: its name, its skills, what it takes and what it wants to sign in. */

import { signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { readCard } from "../model/card";
import { api } from "../state";

export interface Card {
  readonly inputModes: readonly string[];
  readonly prompts: readonly { readonly name: string; readonly description: string; readonly text: string }[];
  readonly schemes: readonly string[];
}

const EMPTY: Card = { inputModes: [], prompts: [], schemes: [] };
const cards = signal<Readonly<Record<string, Card>>>({});

/** Return the card of an agent, empty until it is read. */
export function useCard(agent: string): Card {
  useEffect(() => {
    if (!agent || cards.peek()[agent]) return;
    void api.card(agent).then(
      (given) => {
        cards.value = { ...cards.peek(), [agent]: read(given) };
      },
      () => undefined,
    );
  }, [agent]);
  return cardOf(agent);
}

/** Return the card of an agent as far as it was read. */
export function cardOf(agent: string): Card {
  return cards.value[agent] ?? EMPTY;
}

function read(given: unknown): Card {
  const { inputModes, skills, security } = readCard(given);
  const prompts = skills.map(({ name, description, examples: [text = name] }) => ({ name: name || text, description, text }));
  return { inputModes, prompts: prompts.filter(({ text }) => text), schemes: security };
}
