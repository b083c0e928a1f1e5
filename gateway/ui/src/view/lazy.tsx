/** Parts of the page that are loaded when they are needed. After an upgrade of the server they may be gone. */

import { signal } from "@preact/signals";
import type { ComponentType } from "preact";
import { useEffect } from "preact/hooks";

/** A part could not be loaded: the page is older than the server. */
export const outdated = signal(false);

/** Load a part; null, and `outdated`, if it is gone. A browser that is offline has it later. */
export async function lazily<T>(load: () => Promise<T>): Promise<T | null> {
  try {
    return await load();
  } catch {
    if (navigator.onLine) outdated.value = true;
    return null;
  }
}

/** Return a component that is loaded when it is first shown, and shows nothing until then. */
export function lazyPart<P extends object>(load: () => Promise<ComponentType<P>>): ComponentType<P> {
  const loaded = signal<ComponentType<P> | null>(null);
  return function Part(props: P) {
    useEffect(() => {
      if (!loaded.peek()) void lazily(load).then((part) => (loaded.value = part));
    }, []);
    const Loaded = loaded.value;
    return Loaded && <Loaded {...props} />;
  };
}
