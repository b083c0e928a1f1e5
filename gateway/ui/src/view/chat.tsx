/** The conversation: its head, its rows, what goes on, and the box for the next message. */

import type { ComponentChildren } from "preact";
import type { SessionView } from "../model/view";
import { config, go, panel, session, view, type Panel } from "../state";
import { strings } from "../strings";
import { Banners } from "./banner";
import { Composer } from "./composer";
import { Empty, Notice } from "./empty";
import { Button, Icon, IconButton, type IconName } from "./icons";
import { drawer, togglePanel } from "./keyboard";
import { Export, Rows } from "./parts";
import { newChat } from "./sidebar";
import { Progress, UndoStrip } from "./status";
import { words } from "./toasts";

/** Return how people call an agent. */
export function titleOf(agent: string): string {
  return config.value?.agents.find((one) => one.name === agent)?.title || agent;
}

/** Show the open session. */
export function Chat() {
  const open = view.value;
  if (!open) return null;
  const title = open.title || (!open.id ? strings.chat.newChat : open.status === "ready" ? strings.chat.untitled : "");
  const gone = open.status === "missing" || open.status === "refused";
  return (
    <section class="chat" aria-label={strings.chat.conversation}>
      <Head title={gone ? "" : title}>{!gone && <Buttons open={open} />}</Head>
      <Banners />
      <Body open={open} />
    </section>
  );
}

/** The head of what is open; with a button for the sessions where they are hidden. */
export function Head({ title, children }: { title: string; children?: ComponentChildren }) {
  return (
    <header class="head">
      <IconButton icon="menu" class="narrow-only" label={strings.chat.menu} onClick={() => (drawer.value = true)} />
      {title && <h1 title={title}><bdi>{title}</bdi></h1>}
      {children}
    </header>
  );
}

function Buttons({ open }: { open: SessionView }) {
  return (
    <>
      {open.agent && (
        <HeadButton
          icon="agent"
          label={strings.chat.agent}
          hint={strings.chat.agentOf(titleOf(open.agent))}
          act={() => go({ name: "agent", agent: open.agent })}
        />
      )}
      {open.id && (
        <>
          <Toggle name="tasks" count={open.tasks.length} />
          <Toggle name="artifacts" count={open.artifacts.length} />
          <Toggle name="events" count={0} />
          <Export />
        </>
      )}
    </>
  );
}

function Toggle({ name, count }: { name: Panel; count: number }) {
  const pressed = panel.value === name;
  return <HeadButton icon={name} label={strings.chat[name]} count={count} pressed={pressed} act={() => togglePanel(name)} />;
}

function HeadButton(props: { icon: IconName; label: string; act: () => void; hint?: string; count?: number; pressed?: boolean }) {
  const { icon, label, act, hint = label, pressed } = props;
  const count = props.count || undefined;
  return (
    <button type="button" class="button quiet" aria-label={label} title={hint} aria-pressed={pressed} data-count={count} onClick={act}>
      <Icon name={icon} size={16} />
      <span class="wide-only">{label}</span>
    </button>
  );
}

function Body({ open }: { open: SessionView }) {
  const agent = titleOf(open.agent);
  if (open.status === "missing")
    return <Notice title={strings.chat.missingTitle} text={strings.chat.missing}><NewChat /></Notice>;
  if (open.status === "refused" && open.failure) {
    const [what, todo] = words(open.failure);
    return (
      <Notice title={what} text={todo} code={open.failure.code}>
        <Button kind="primary" label={strings.chat.retry} act={() => void session.value?.refresh()} />
      </Notice>
    );
  }
  return (
    <>
      {open.status === "loading" && <Loading />}
      {open.status !== "loading" && (open.rows.length ? <Rows open={open} /> : <Empty agent={open.agent} title={agent} />)}
      <div class="foot">
        <UndoStrip />
        <Progress />
        <Composer agent={agent} />
      </div>
    </>
  );
}

/** The button of pages that show nothing else. */
export function NewChat(): ComponentChildren {
  return <Button kind="primary" label={strings.chat.newChat} act={newChat} />;
}

function Loading() {
  return (
    <div class="loading" role="status" aria-label={strings.chat.opening}>
      {[70, 100, 85, 40].map((width) => <span key={width} style={{ inlineSize: `${width}%` }} />)}
    </div>
  );
}
