/** The conversation: its head, what concerns all of it, its rows, what goes on, and the box for the next message. */

import { signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { UNKNOWN } from "../model/records";
import type { SessionView } from "../model/followed";
import type { Failure, TaskInfo } from "../model/view";
import { PANELS, address, api, config, drawer, go, mayWrite, panel, route, session, view } from "../state";
import { strings } from "../strings";
import { offer, reveal, undo } from "./acts";
import { isAgentGone, titleOf, useCard } from "./card";
import { Composer } from "./composer";
import { Act, Button, Icon, IconButton, useEvery } from "./controls";
import { duration } from "./format";
import { newChat, togglePanel } from "./keyboard";
import { PageLink } from "./links";
import { Rows, outdated } from "./parts";
import { Export } from "./share";
import { words } from "./toasts";
import { Waiting } from "./waiting";

const BANNERS = Object.keys(strings.banners) as (keyof typeof strings.banners)[];
const PROMPTS = 3;
const WORDS_MS = 600;
const ELAPSED_MS = 10_000;
const LEAVE_MS = 60_000;
/** The browser says that it has a network. */
export const online = signal(navigator.onLine);
for (const name of ["online", "offline"]) addEventListener(name, () => (online.value = name === "online"));

/** Show the open session. */
export function Chat() {
  const open = view.value;
  if (!open) return null;
  const title = open.title || (!open.id ? strings.chat.newChat : open.status === "ready" ? strings.chat.untitled : "");
  return (
    <section class="chat" aria-label={strings.chat.conversation}>
      {open.failure ? <Head /> : <Head title={title} agent={open.agent}><Buttons {...open} /></Head>}
      <Banners />
      <Body {...open} />
    </section>
  );
}

type Headed = { title?: string; agent?: string; kind?: string; children?: ComponentChildren };

/** The head of what is open, with its agent below the title; with a button for the sessions where they are hidden. */
export function Head({ title = "", agent = "", kind = "head", children }: Headed) {
  return (
    <header class={kind}>
      <IconButton icon="menu" class="narrow-only" label={strings.chat.menu} onClick={() => (drawer.value = true)} />
      {(title || agent) && (
        <div class="titles">
          {title && <h1 title={title}><bdi>{title}</bdi></h1>}
          {agent && <AgentLink agent={agent} />}
        </div>
      )}
      {children}
    </header>
  );
}

/** The agent of the conversation by its name, which leads to its card. */
function AgentLink({ agent }: { agent: string }) {
  const name = isAgentGone(agent) ? strings.chat.goneAgent(titleOf(agent)) : titleOf(agent);
  const label = strings.chat.agentOf(name);
  return (
    <PageLink class="agent-link" href={address({ name: "agent", agent })} aria-label={label} title={label}>
      <Icon name="agent" size={14} /> <bdi>{name}</bdi>
    </PageLink>
  );
}

function Buttons(open: SessionView) {
  const { id } = open;
  return (
    <>
      {id && PANELS.map((name) => {
        const label = strings.panel.parts[name];
        const count = (name !== "events" && open[name].length) || undefined;
        return (
          <Button key={name} kind="quiet" icon={name} label={label} aria-label={label} title={count ? `${label}: ${count}` : label}
            data-count={count} aria-pressed={panel.value === name} act={() => togglePanel(name)} />
        );
      })}
      {id && <Export />}
    </>
  );
}

/** What concerns the whole page, such as no network or a new version; and a notice of the open session. */
function Banners() {
  const { connection, notice } = view.value ?? {};
  const lost = online.value && connection === "lost";
  const holds = { offline: !online.value, lost, waiting: connection === "waiting", gone: isGone(), update: outdated.value };
  return (
    <div class="banners">
      {BANNERS.map((kind) => holds[kind] && (
        <Banner key={kind} kind={kind} words={strings.banners[kind]}>
          {kind === "update" && <Button kind="small" label={strings.chat.reload} act={() => location.reload()} />}
        </Banner>
      ))}
      {notice && (
        <Banner kind="notice" words={words(notice).join(" ")}>
          <IconButton icon="close" label={strings.chat.dismiss} size={16} onClick={() => session.value?.set({ notice: null })} />
        </Banner>
      )}
    </div>
  );
}

/** Return whether the address names a task or a message that the session does not have. */
function isGone(): boolean {
  const { task, message } = route.value;
  const open = view.value;
  if (open?.status !== "ready") return false;
  if (task) return open.tasks.every(({ id }) => id !== task);
  return message !== "" && !open.hasOlder && open.rows.every(({ key }) => key !== message);
}

function Banner({ kind, words, children }: { kind: string; words: string; children: ComponentChildren }) {
  return (
    <div class="banner" role="status" data-banner={kind}>
      <Icon name="alert" size={16} />
      <span dir="auto">{words}</span>
      {children}
    </div>
  );
}

function Body(open: SessionView) {
  const { running } = open;
  if (open.status === "missing")
    return <Notice title={strings.chat.missingTitle} text={strings.chat.missing}><NewChat /></Notice>;
  if (open.failure) return <Failing failure={open.failure} again={() => void session.value?.refresh()} />;
  return (
    <>
      {open.status === "loading" && <p class="empty" role="status"><span class="spinner" /> {strings.chat.opening}</p>}
      {open.status !== "loading" && (open.rows.length ? <Rows {...open} /> : <Empty agent={open.agent} />)}
      <div class="foot">
        <UndoStrip {...open} />
        {open.unknown > 0 && <Unknown count={open.unknown} />}
        <div class="progress" data-progress={running?.state}>{running && <Running key={running.id} {...running} />}</div>
        {running?.state === "submitted" && <Waiting key={running.id} id={running.id} />}
        <Composer />
      </div>
    </>
  );
}

/** An empty conversation: what the agent can do, as messages to begin with. */
function Empty({ agent }: { agent: string }) {
  const skills = useCard(agent).found?.card.skills ?? [];
  const prompts = mayWrite.value ? skills.filter(({ examples = [] }) => examples.length).slice(0, PROMPTS) : [];
  const about = config.value?.agents.find((one) => one.name === agent)?.description;
  if (!agent) return <NoAgents />;
  if (isAgentGone(agent)) return <Notice title={strings.agents.gone(agent)} text={strings.agents.goneHint}><NewChat /></Notice>;
  return (
    <div class="empty">
      <span class="emblem"><Icon name="agent" size={28} /></span>
      <h2 dir="auto">{strings.chat.emptyTitle(titleOf(agent))}</h2>
      {about && <p dir="auto">{about}</p>}
      {prompts.length > 0 && [
        <p class="aside">{strings.chat.empty}</p>,
        <ul class="prompts">
          {prompts.map(({ id, name = id, description, examples: [text = ""] = [] }) => (
            <li key={id}>
              <button type="button" onClick={() => offer(text)}>
                <strong dir="auto">{name}</strong>
                <small dir="auto">{description}</small>
                <code dir="auto">{text}</code>
              </button>
            </li>
          ))}
        </ul>,
      ]}
      {skills.length > PROMPTS && <Button label={strings.chat.allSkills(skills.length)} act={() => go({ name: "agent", agent })} />}
    </div>
  );
}

/** Offers to undo the last rewind, for as long as the server accepts it. */
function UndoStrip({ canUndo, rows, tasks, rewinding }: SessionView) {
  if (!canUndo || !mayWrite.value) return null;
  const last = rows.findLast((row) => row.kind === "message")?.message.taskId;
  const over = last && tasks.every(({ id }) => id !== last);
  return (
    <div class="undo-strip" role="status">
      <Icon name="rewind" size={16} />
      <span>{strings.chat.rewound} {over && strings.chat.taskOver}</span>
      <Button kind="small" label={strings.chat.undoRewind} disabled={rewinding} act={() => void undo()} />
    </div>
  );
}

/** Says how much has a form that the page does not know, and leads to it. */
function Unknown({ count }: { count: number }) {
  return (
    <p class="unknown aside" role="status" data-count={count}>
      <Icon name="alert" size={16} /> <span>{strings.chat.unknownThings(count)}</span>
      <Act label={strings.chat.showUnknown} act={() => reveal("events", UNKNOWN)} />
    </p>
  );
}

/** The work of the agent in one line: after 0.6 s words, after 10 s the time, after 60 s that one may leave. */
function Running({ state, createdAt }: TaskInfo) {
  const [seen] = useState(api.now);
  const [now, setNow] = useState(seen);
  const waits = now - seen < WORDS_MS;
  useEvery(waits ? WORDS_MS : 1000, () => setNow(api.now()));
  if (waits) return null;
  const elapsed = now - Math.min(seen, Date.parse(createdAt) || seen);
  const told = view.value?.progress || strings.states[state === "submitted" ? state : "working"];
  return (
    <>
      <span class="spinner" />
      <span class="words" dir="auto" role="status">{view.value?.stopping ? strings.chat.stopping : told}</span>
      {elapsed >= ELAPSED_MS && <span class="elapsed">· {duration(elapsed)}{elapsed >= LEAVE_MS && ` · ${strings.chat.still}`}</span>}
    </>
  );
}

/** Say what failed and what to do, under a title if one is given, with a button to try it again. */
export function Failing({ failure, again, title = "" }: { failure: Failure; again: () => void; title?: string }) {
  const [what, todo] = words(failure);
  return (
    <Notice title={title || what} text={title ? `${what} ${todo}` : todo} code={failure.code}>
      <Button kind="primary" label={strings.chat.retry} act={again} />
    </Notice>
  );
}

/** Show a sentence in the middle of the page, with what can be done. */
export function Notice({ title, text, code, children }: { title: string; text: string; code?: string; children?: ComponentChildren }) {
  return (
    <div class="empty" role={code ? "alert" : undefined} data-code={code}>
      <h1 dir="auto">{title}</h1>
      {text && <p dir="auto">{text}</p>}
      {children}
    </div>
  );
}

/** Say how an agent is served where there is none. */
export function NoAgents() {
  return (
    <Notice title={strings.agents.none} text={strings.agents.noneHint}>
      <pre tabIndex={0}>{strings.agents.noneCommand}</pre>
    </Notice>
  );
}

/** The button of pages that show nothing else. */
export function NewChat(): ComponentChildren {
  return <Button kind="primary" label={strings.chat.newChat} act={newChat} />;
}
