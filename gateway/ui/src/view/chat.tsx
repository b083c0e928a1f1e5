/** The conversation: its head, its rows, what goes on, and the box for the next message. */

import type { ComponentChildren, ComponentProps } from "preact";
import type { SessionView } from "../model/view";
import { PANELS, config, drawer, go, panel, session, view } from "../state";
import { strings } from "../strings";
import { Banners } from "./banner";
import { Composer } from "./composer";
import { Empty, Failing, Notice } from "./empty";
import { Button, Icon, IconButton } from "./icons";
import { newChat, togglePanel } from "./keyboard";
import { Export, Rows } from "./parts";
import { Progress, UndoStrip } from "./status";

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
export function Head({ title = "", kind = "head", children }: { title?: string; kind?: string; children?: ComponentChildren }) {
  return (
    <header class={kind}>
      <IconButton icon="menu" class="narrow-only" label={strings.chat.menu} onClick={() => (drawer.value = true)} />
      {title && <h1 title={title}><bdi>{title}</bdi></h1>}
      {children}
    </header>
  );
}

function Buttons({ open }: { open: SessionView }) {
  const { id, agent } = open;
  return (
    <>
      {agent && (
        <HeadButton icon="agent" label={strings.chat.agent} title={strings.chat.agentOf(titleOf(agent))}
          onClick={() => go({ name: "agent", agent })} />
      )}
      {id && PANELS.map((name) => (
        <HeadButton key={name} icon={name} label={strings.panel.parts[name]} onClick={() => togglePanel(name)}
          aria-pressed={panel.value === name} {...counted(strings.panel.parts[name], name === "events" ? 0 : open[name].length)} />
      ))}
      {id && <Export />}
    </>
  );
}

/** The count at a button, in its description too. */
const counted = (label: string, count: number) => (count ? { "data-count": count, title: `${label}: ${count.toLocaleString()}` } : {});

function HeadButton({ icon, label, ...rest }: ComponentProps<typeof IconButton>) {
  return (
    <button type="button" class="button quiet" aria-label={label} title={label} {...rest}>
      <Icon name={icon} size={16} />
      <span class="wide-only">{label}</span>
    </button>
  );
}

function Body({ open }: { open: SessionView }) {
  const agent = titleOf(open.agent);
  if (open.status === "missing")
    return <Notice title={strings.chat.missingTitle} text={strings.chat.missing}><NewChat /></Notice>;
  if (open.status === "refused" && open.failure)
    return <Failing failure={open.failure} again={() => void session.value?.refresh()} />;
  return (
    <>
      {open.status === "loading" && <p class="empty" role="status"><span class="spinner" /> {strings.chat.opening}</p>}
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
