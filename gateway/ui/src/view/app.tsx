/** The whole page: reads what the server says of itself, then shows the place that the address names. */

import { effect, useSignalEffect } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useErrorBoundary, useState } from "preact/hooks";
import type { Config } from "../model/api";
import { type Failure, failureOf } from "../model/failures";
import { agent, api, begun, config, expired, forgetShown, kept, keptForTab, route, session, sessions, showRoute, view } from "../state";
import { strings } from "../strings";
import { online } from "./banner";
import { Chat, Head, NewChat } from "./chat";
import { forgetDrafts } from "./draft";
import { Failing, Notice } from "./empty";
import { Button } from "./icons";
import { AgentPage, Ops, SignIn, prepare } from "./parts";
import { Shell } from "./shell";

/** Under what this browser keeps who used it last. */
const USER = "taskplane.user";

/** The page, from the first request on. */
export function App() {
  const [failure, setFailure] = useState<Failure | null>(null);
  useEffect(() => {
    const started = begun.value;
    void api.config().catch(failureOf).then((given) => {
      if (started !== begun.value) return;
      setFailure("code" in given ? given : null);
      if (!("code" in given)) begin(given);
    });
  }, [begun.value]);
  if (failure && failure.status !== 401)
    return <Failing title={strings.chat.startFailed} failure={failure} again={() => begun.value++} />;
  if (failure || expired.value || (config.value?.auth.required && !config.value.caller)) return <SignIn />;
  return <Boundary>{config.value && <Shell><Boundary><Place /></Boundary></Shell>}</Boundary>;
}

/** Use what the server says of itself and of the caller from now on. */
function begin(given: Config): void {
  expired.value = false;
  changeUser(given);
  agent.value ||= (given.agents.find((one) => one.isDefault) ?? given.agents[0])?.name ?? "";
  config.value = given;
  if (!given.caller?.mayRead) return;
  void session.value?.refresh();
  void sessions.load();
}

/** Keep nothing of one user for another, whichever way the first one left. */
function changeUser({ caller }: Config): void {
  if (!caller) return;
  const [before, now] = [keptForTab.get(USER) || kept.get(USER), `${caller.tenant}/${caller.user}`];
  for (const store of [kept, keptForTab]) store.set(USER, now);
  if (!before || before === now) return;
  forgetDrafts();
  forgetShown();
}

function Place() {
  useSignalEffect(showRoute);
  useEffect(prepare, []);
  const at = route.value;
  if (at.name === "chat") return <Chat />;
  if (at.name === "agent") return <AgentPage key={at.agent} />;
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
  const title = { ops: strings.ops.title, agent: route.value.agent, chat: open?.title, unknown: "" }[name];
  document.title = [open?.running ? "●" : "", title, strings.product].filter(Boolean).join(" · ").replace("● · ", "● ");
});
effect(() => session.value?.setOnline(online.value));
const look = () => session.value?.setVisible(!document.hidden);
document.addEventListener("visibilitychange", look);
effect(look);
