/** The conversation: its head, its rows, what goes on, and the box for the next message. */

import type { ComponentChildren, ComponentProps } from "preact";
import type { SessionView } from "../model/view";
import { PANELS, drawer, go, panel, session, view } from "../state";
import { strings } from "../strings";
import { Banners } from "./banner";
import { titleOf } from "./card";
import { Composer } from "./composer";
import { Empty, Failing, Notice } from "./empty";
import { Button, Icon, IconButton } from "./icons";
import { newChat, togglePanel } from "./keyboard";
import { Export, Rows } from "./parts";
import { Progress, UndoStrip } from "./status";

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
        <HeadButton key={name} icon={name} label={strings.panel.parts[name]} count={name === "events" ? 0 : open[name].length}
          aria-pressed={panel.value === name} onClick={() => togglePanel(name)} />
      ))}
      {id && <Export />}
    </>
  );
}

/** A button of the head. A count at it is in its description too. */
function HeadButton({ icon, label, count = 0, ...rest }: ComponentProps<typeof IconButton> & { count?: number }) {
  const title = count ? `${label}: ${count.toLocaleString()}` : label;
  return (
    <button type="button" class="button quiet" aria-label={label} title={title} data-count={count || undefined} {...rest}>
      <Icon name={icon} size={16} />
      <span class="wide-only">{label}</span>
    </button>
  );
}

function Body({ open }: { open: SessionView }) {
  if (open.status === "missing")
    return <Notice title={strings.chat.missingTitle} text={strings.chat.missing}><NewChat /></Notice>;
  if (open.status === "refused" && open.failure)
    return <Failing failure={open.failure} again={() => void session.value?.refresh()} />;
  return (
    <>
      {open.status === "loading" && <p class="empty" role="status"><span class="spinner" /> {strings.chat.opening}</p>}
      {open.status !== "loading" && (open.rows.length ? <Rows open={open} /> : <Empty agent={open.agent} />)}
      <div class="foot">
        <UndoStrip />
        <Progress />
        <Composer />
      </div>
    </>
  );
}

/** The button of pages that show nothing else. */
export function NewChat(): ComponentChildren {
  return <Button kind="primary" label={strings.chat.newChat} act={newChat} />;
}
