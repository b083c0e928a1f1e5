/** The parts of the page that are loaded when they are first shown. */

import { lazyPart } from "./lazy";

export const Panel = lazyPart(async () => (await import("./panel/panel")).Panel);
export const AgentPage = lazyPart(async () => (await import("./agent/agent")).AgentPage);
export const Ops = lazyPart(async () => (await import("./ops/ops")).Ops);
export const Export = lazyPart(async () => (await import("./share/share")).Export);
export const Import = lazyPart(async () => (await import("./share/share")).Import);
export const SignIn = lazyPart(async () => (await import("./sign_in")).SignIn);
