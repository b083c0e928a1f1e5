/** The whole page: reads what the server says of itself, then shows the place that the address names. */

import { effect, useSignalEffect } from "@preact/signals";
import { type ComponentChildren, render } from "preact";
import { useEffect, useErrorBoundary, useRef, useState } from "preact/hooks";
import "./style/base.css";
import "./style/chat.css";
import "./style/panel.css";
import type { Config } from "./model/api";
import { type Failure, failureOf } from "./model/http";
import {
  api, config, cover, drawer, forgetShown, kept, keptForTab, key, narrow, panel, route, session, sessions, showRoute,
  signIn, view,
} from "./state";
import { strings } from "./strings";
import { focusBox, forgetDrafts } from "./view/acts";
import { Chat, Failing, Head, NewChat, Notice, online } from "./view/chat";
import { forgetAgent, know } from "./view/chosen";
import { Button } from "./view/controls";
import "./view/focus";
import { Help, closeTop } from "./view/keyboard";
import { AgentPage, Agents, Ops, Panel } from "./view/parts";
import { Sidebar } from "./view/sidebar";
import { Toasts, words } from "./view/toasts";

/** Under what this browser keeps who used it last. */
const USER = "taskplane.user";

/** The page, from the first request on. */
function App() {
  const [failure, setFailure] = useState<Failure | null>(null);
  const load = () => api.config().then(begin, failureOf).then(setFailure);
  useEffect(() => void load(), []);
  if (config.value?.caller) return <Boundary><Shell><Boundary><Place /></Boundary></Shell></Boundary>;
  if (config.value || failure?.status === 401) return <SignIn failure={failure} load={load} />;
  return failure && <Failing title={strings.chat.startFailed} failure={failure} again={load} />;
}

/** Use what the server says of itself and of the caller from now on. */
function begin(given: Config): null {
  changeUser(given);
  know(given);
  if (!given.caller?.mayRead) return null;
  void session.value?.refresh();
  void sessions.load();
  return null;
}

/** Keep nothing of one user for another, whichever way the first one left. */
function changeUser({ caller }: Config): void {
  if (!caller) return;
  const [before, now] = [keptForTab.get(USER) || kept.get(USER), `${caller.tenant}/${caller.user}`];
  for (const store of [kept, keptForTab]) store.set(USER, now);
  if (!before || before === now) return;
  forgetDrafts();
  forgetAgent();
  forgetShown();
}

/** Ask for a key, which is in memory or in this tab's storage, never in an address. */
function SignIn({ failure, load }: { failure: Failure | null; load: () => Promise<void> }) {
  const field = useRef<HTMLInputElement>(null);
  const [remember, setRemember] = useState(true);
  const [busy, setBusy] = useState(false);
  useEffect(() => field.current?.focus(), []);
  const refusal = busy ? "" : failure ? words(failure).join(" ") : key.value && strings.signIn.expired;
  const submit = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    signIn(field.current!.value.trim(), remember);
    await load();
    setBusy(false);
    field.current?.select();
  };
  return (
    <main class="sign-in">
      <form class="try" onSubmit={(event) => void submit(event)}>
        <h1>{strings.product}</h1>
        <p class="aside">{strings.signIn.why}</p>
        <label>
          {strings.signIn.key}
          <input ref={field} class="field" type="password" autocomplete="current-password" required pattern="\s*\S+\s*"
            aria-invalid={refusal !== ""} aria-describedby="key-refusal key-hint" />
        </label>
        {refusal && <p id="key-refusal" class="failure" role="alert" data-code="BAD_CREDENTIALS">{refusal}</p>}
        <label class="choice">
          <input type="checkbox" checked={remember} onChange={(event) => setRemember(event.currentTarget.checked)} />
          {strings.signIn.remember}
        </label>
        <small id="key-hint">{remember ? strings.signIn.remembered : strings.signIn.inMemory}</small>
        <button class="button primary" disabled={busy}>{busy ? strings.signIn.busy : strings.signIn.signIn}</button>
      </form>
    </main>
  );
}

/** The three columns: sessions, what is open, and details. Where it is narrow, the outer ones lie above. */
function Shell({ children }: { children: ComponentChildren }) {
  useSignalEffect(cover);
  const details = panel.value !== null && route.value.name === "chat";
  const below = drawer.value || (details && narrow.value);
  return (
    <div class="shell" data-drawer={drawer.value || undefined} data-details={details || undefined}>
      {!below && <button type="button" class="skip" onClick={focusBox}>{strings.chat.skip}</button>}
      <Sidebar inert={below && !drawer.value} />
      <button type="button" class="scrim" tabIndex={-1} aria-hidden="true" onClick={closeTop} />
      <main id="main" tabIndex={-1} inert={below}>{children}</main>
      {details && <div class="details" tabIndex={-1} inert={drawer.value}><Panel /></div>}
      <Help />
      <Toasts />
    </div>
  );
}

function Place() {
  useSignalEffect(showRoute);
  const at = route.value;
  if (at.name === "chat") return <Chat />;
  if (at.name === "agent") return at.agent ? <AgentPage key={at.agent} /> : <Agents />;
  if (at.name === "ops") return <Ops />;
  return (
    <section class="chat" aria-label={strings.chat.unknownTitle}>
      <Head />
      <Notice title={strings.chat.unknownTitle} text={strings.chat.unknown}><NewChat /></Notice>
    </section>
  );
}

/** Shows what broke in a part of the page in its place; drafts are stored, so that a reload is safe. */
function Boundary({ children }: { children: ComponentChildren }) {
  const [error] = useErrorBoundary();
  if (error === undefined) return <>{children}</>;
  return (
    <Notice title={strings.chat.crashTitle} text={strings.chat.crash} code="PAGE_BROKE">
      <pre tabIndex={0}>{String(error)}</pre>
      <Button kind="primary" label={strings.chat.reload} act={() => location.reload()} />
    </Notice>
  );
}

effect(() => {
  const { name } = route.value;
  const open = name === "chat" ? view.value : null;
  const title = { ops: strings.ops.title, agent: route.value.agent || strings.agents.title, chat: open?.title, unknown: "" }[name];
  document.title = [open?.running ? "●" : "", title, strings.product].filter(Boolean).join(" · ").replace("● · ", "● ");
});
effect(() => session.value?.setOnline(online.value));
const look = () => session.value?.setVisible(!document.hidden);
document.addEventListener("visibilitychange", look);
effect(look);

render(<App />, document.getElementById("app")!);
