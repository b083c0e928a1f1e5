/** What the page reads of an agent's card: its name, its skills, what it takes and what it wants to sign in. */

import { signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
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
  const card = record(given);
  return {
    inputModes: list(card["defaultInputModes"]).filter((one) => typeof one === "string"),
    prompts: list(card["skills"]).flatMap((one) => {
      const skill = record(one);
      const text = list(skill["examples"]).find((example) => typeof example === "string");
      const name = word(skill["name"]);
      return text || name ? [{ name: name || word(text), description: word(skill["description"]), text: word(text) || name }] : [];
    }),
    schemes: Object.entries(record(card["securitySchemes"])).map(([name, scheme]) => schemeWords(name, record(scheme))),
  };
}

/** Say what a security scheme asks for: the 1.0 form has one member that names its kind, the 0.3 form a `type`. */
function schemeWords(name: string, given: Record<string, unknown>): string {
  const inner = Object.values(given).find((one) => one !== null && typeof one === "object" && !Array.isArray(one));
  const scheme = given["type"] === undefined && inner ? record(inner) : given;
  const place = word(scheme["location"]) || word(scheme["in"]);
  const about = [word(scheme["description"]), word(scheme["scheme"]), place && `${place} ${word(scheme["name"])}`.trim()];
  return [name, ...about.filter(Boolean)].join(": ");
}

function record(given: unknown): Record<string, unknown> {
  return given !== null && typeof given === "object" ? (given as Record<string, unknown>) : {};
}

function list(given: unknown): readonly unknown[] {
  return Array.isArray(given) ? given : [];
}

function word(given: unknown): string {
  return typeof given === "string" ? given : "";
}
