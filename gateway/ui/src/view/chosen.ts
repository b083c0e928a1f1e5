/** The agent of new conversations: the one that was chosen last in this tab, if it is served, else the default one. */

import type { Config } from "../model/api";
import { agent, api, config, keptForTab, route, session, show } from "../state";
import { sending } from "./acts";

const CHOSEN = "taskplane.agent";

/** Let new conversations be with an agent, over reloads too; and so the one that is shown, if nothing of it was sent. */
export function chooseAgent(name: string): void {
  keptForTab.set(CHOSEN, name);
  use(name);
}

/** Choose none, so that it is the default one. */
export function forgetAgent(): void {
  keptForTab.set(CHOSEN, "");
}

/** Take what the server says of itself, of the caller and of its agents. */
export function know(given: Config): void {
  const chosen = keptForTab.get(CHOSEN);
  const [first] = given.agents;
  const found = given.agents.find(({ name }) => name === chosen) ?? given.agents.find(({ isDefault }) => isDefault) ?? first;
  config.value = given;
  use(found?.name ?? "");
}

/** Read again which agents there are; what is known stays if that fails. */
export async function readAgents(): Promise<void> {
  const found = await api.config().catch(() => null);
  if (found?.caller) know(found);
}

function use(name: string): void {
  if (name === agent.peek()) return;
  agent.value = name;
  const begins = route.peek().name === "chat" && !route.peek().session && !sending.peek();
  if (begins && session.peek()) show("");
}
