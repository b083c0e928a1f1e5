/** The three columns of the page: sessions, what is open, and details. Where it is narrow, the outer ones lie above. */

import type { ComponentChildren } from "preact";
import { useSignalEffect } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { cover, drawer, narrow, panel, route } from "../state";
import { strings } from "../strings";
import { focusBox } from "./acts";
import { Help, closeTop, listen } from "./keyboard";
import { Panel } from "./parts";
import { Sidebar } from "./sidebar";
import { Toasts } from "./toasts";

/** Lay out the page around what is open. */
export function Shell({ children }: { children: ComponentChildren }) {
  useEffect(listen, []);
  useSignalEffect(cover);
  const details = panel.value !== null && route.value.name === "chat";
  const below = drawer.value || (details && narrow.value);
  return (
    <div class="shell" data-drawer={drawer.value || undefined} data-details={details || undefined}>
      {!below && <a class="skip" href="#main" onClick={skip}>{strings.chat.skip}</a>}
      <Sidebar inert={below && !drawer.value} />
      <button type="button" class="scrim" tabIndex={-1} aria-hidden="true" onClick={closeTop} />
      <main id="main" tabIndex={-1} inert={below}>{children}</main>
      {details && <div class="details" tabIndex={-1} inert={drawer.value}><Panel /></div>}
      <Help />
      <Toasts />
    </div>
  );
}

function skip(event: Event): void {
  event.preventDefault();
  document.getElementById("main")?.focus();
  focusBox();
}
