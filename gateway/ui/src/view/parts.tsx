/** Parts of the page that are loaded when they are needed. After an upgrade of the server they may be gone. */

import { signal } from "@preact/signals";
import type { ComponentType } from "preact";
import { useEffect } from "preact/hooks";
import { api } from "../state";
import { strings } from "../strings";
import { Button } from "./controls";

/** A part could not be loaded: the page is older than the server. */
export const outdated = signal(false);

const rows = () => import("./list").then((part) => part.Rows);

export const Panel = lazyPart(() => import("./panel/panel").then((part) => part.Panel));
export const AgentPage = lazyPart(() => import("./agent").then((part) => part.AgentPage));
export const Agents = lazyPart(() => import("./agents").then((part) => part.Agents));
export const Ops = lazyPart(() => import("./ops/ops").then((part) => part.Ops));
export const Rows = lazyPart(rows);

// Before there is a conversation to show.
void lazily(rows);

/** Load a part; null if that fails, and `outdated` if the server is there and has it no more. */
export async function lazily<T>(load: () => Promise<T>): Promise<T | null> {
  try {
    return await load();
  } catch {
    if (await api.reachable()) outdated.value = true;
    return null;
  }
}

/** Load the page again, as soon as the server is there: a browser may not fetch a module again that could not be loaded. */
const again = async () => void ((await api.reachable()) && location.reload());

/** Return a component that is loaded when it is first shown, and shows nothing until then; a button if that fails. */
function lazyPart<P extends object>(load: () => Promise<ComponentType<P>>): ComponentType<P> {
  const loaded = signal<ComponentType<P> | "failed" | null>(null);
  const begin = () => {
    loaded.value = null;
    void lazily(load).then((part) => (loaded.value = part ?? "failed"));
  };
  return function Part(props: P) {
    useEffect(() => {
      if (typeof loaded.peek() !== "function") begin();
    }, []);
    const Loaded = loaded.value;
    if (Loaded === "failed") return outdated.value ? null : <Button kind="part" label={strings.chat.partFailed} act={again} />;
    return Loaded && <Loaded {...props} />;
  };
}
