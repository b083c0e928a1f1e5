/** The parts of the page that are loaded when they are first shown. */

import { lazily, lazyPart } from "./lazy";

const rows = () => import("./list").then((part) => part.Rows);

export const Panel = lazyPart(() => import("./panel/panel").then((part) => part.Panel));
export const AgentPage = lazyPart(() => import("./agent/agent").then((part) => part.AgentPage));
export const Export = lazyPart(() => import("./share/share").then((part) => part.Export));
export const Import = lazyPart(() => import("./share/share").then((part) => part.Import));
export const SignIn = lazyPart(() => import("./sign_in").then((part) => part.SignIn));
export const Ops = lazyPart(() => import("./ops/ops").then((part) => part.Ops));
export const Rows = lazyPart(rows);

/** Load what shows a conversation, before there is one to show. */
export function prepare(): void {
  void lazily(rows);
}
