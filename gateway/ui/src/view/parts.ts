/** The parts of the page that are loaded when they are first shown. */

import type { ComponentType } from "preact";
import { lazyPart } from "./lazy";

type Module = Readonly<Record<string, ComponentType<object>>>;
const found = import.meta.glob<Module>(["./panel/*.tsx", "./agent/*.tsx", "./ops/ops.tsx", "./share/*.tsx", "./sign_in.tsx"]);

function part(path: string, name: string): ComponentType<object> {
  return lazyPart(async () => (await found[path]?.())?.[name] ?? (() => null));
}

export const Panel = part("./panel/panel.tsx", "Panel");
export const AgentPage = part("./agent/agent.tsx", "AgentPage");
export const Ops = part("./ops/ops.tsx", "Ops");
export const Export = part("./share/share.tsx", "Export");
export const Import = part("./share/share.tsx", "Import");
export const SignIn = part("./sign_in.tsx", "SignIn");
