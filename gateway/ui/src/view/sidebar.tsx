/** The sessions of the caller: to find, open, rename and delete them, and to begin a new one. */

import { useState } from "preact/hooks";
import type { SessionRow } from "../model/api";
import { ACTIVE } from "../model/tasks";
import { address, agent, chat, config, drawer, go, key, mayOperate, mayRead, mayWrite, route, session, sessions, signIn } from "../state";
import { strings } from "../strings";
import { forgetDrafts } from "./acts";
import { titleOf } from "./card";
import { chooseAgent } from "./chosen";
import { Button, Choice, Icon, IconButton, useEvery } from "./controls";
import { dayOf, fullTime } from "./format";
import { newChat, showHelp } from "./keyboard";
import { PageLink } from "./links";
import { Import } from "./share";
import { nextTheme, theme } from "./theme";
import { toast, toastFailure, words } from "./toasts";

/** How often the list is read while a session in it is at work, or it could not be read. */
const AT_WORK_MS = 5_000;

/** Show the list of sessions with what is above and below it. */
export function Sidebar({ inert }: { inert: boolean }) {
  const { agents = [], caller } = config.value ?? {};
  return (
    <section class="sidebar" inert={inert} aria-label={strings.chat.sessions}>
      <header>
        <span class="brand"><Icon name="brand" size={20} /> {config.value?.product ?? strings.product}</span>
        <IconButton icon="close" class="narrow-only" label={strings.chat.close} onClick={() => (drawer.value = false)} />
      </header>
      {mayWrite.value && agents.length > 1 && (
        <label class="labelled">
          {strings.chat.newAgent}
          <Choice label={strings.chat.newAgent} value={agent.value} act={chooseAgent}
            options={agents.map(({ name }) => [name, titleOf(name)])} />
        </label>
      )}
      {mayWrite.value && (
        <Button icon="plus" label={strings.chat.newChat} act={newChat}
          title={agent.value ? strings.chat.newChatWith(titleOf(agent.value)) : undefined} />
      )}
      {mayRead.value && <Sessions />}
      <footer>
        {mayRead.value && (
          <PageLink href={address({ name: "agent" })} here={route.value.name === "agent" && !route.value.agent} class="row-link">
            <Icon name="agent" size={16} /> {strings.agents.title}
          </PageLink>
        )}
        {mayOperate.value && (
          <PageLink href={address({ name: "ops" })} here={route.value.name === "ops"} class="row-link">
            <Icon name="operations" size={16} /> {strings.chat.operations}
          </PageLink>
        )}
        <div class="tools-row">
          {mayWrite.value && <Import />}
          <IconButton icon={theme.value} label={`${strings.chat.theme}: ${strings.chat.themes[theme.value]}`} onClick={nextTheme} />
          <IconButton icon="keyboard" label={strings.chat.shortcuts} onClick={showHelp} />
          {key.value && caller && <IconButton icon="key" label={strings.chat.signOut} title={strings.chat.signOutOf(caller.user)} onClick={signOut} />}
        </div>
      </footer>
    </section>
  );
}

/** Leave nothing for who signs in next: neither the key nor what was written and shown. */
function signOut(): void {
  sessions.leave();
  signIn("", false);
  forgetDrafts();
  location.assign(address(chat("")));
}

const near = new IntersectionObserver((all) => all.some((one) => one.isIntersecting) && void sessions.more(), { rootMargin: "400px" });
/** Read the next page when the end of the list comes close; the element is another one for each page. */
const readMore = (end: HTMLElement | null) => void (end && near.observe(end));

/** The list, with what searches it. */
function Sessions() {
  const rows = sessions.rows.value;
  const failure = sessions.failure.value;
  const days = rows.map(({ updatedAt }) => dayOf(updatedAt));
  const atWork = rows.some(({ lastState, paused }) => ACTIVE.has(lastState) && !paused);
  useEvery(atWork || failure ? AT_WORK_MS : 0, () => sessions.load());
  const query = sessions.query.value;
  const nothing = query ? strings.chat.nothingFound(query) : strings.chat.noSessions;
  return (
    <>
      <input id="search" type="search" class="field" aria-label={strings.chat.search} placeholder={strings.chat.searchHint}
        value={query} onInput={(event) => sessions.search(event.currentTarget.value)} />
      <nav class="sessions" aria-label={strings.chat.sessions}>
        {failure && <p class="aside" role="alert" data-code={failure.code}>{words(failure).join(" ")}</p>}
        {!rows.length && !failure && !sessions.loading.value && <p class="aside" role="status">{nothing}</p>}
        <ul>
          {rows.map((row, index) => (
            <li key={row.id}>
              {days[index] !== days[index - 1] && <h2>{days[index]}</h2>}
              <Session row={row} />
            </li>
          ))}
          {sessions.next.value && <li key={rows.length} ref={readMore} class="aside">{strings.chat.moreSessions}</li>}
        </ul>
      </nav>
    </>
  );
}

function Session({ row }: { row: SessionRow }) {
  const title = row.title || strings.chat.untitled;
  const here = route.value.session === row.id;
  const [renaming, setRenaming] = useState(false);
  if (renaming) return <Rename row={row} done={() => setRenaming(false)} />;
  const state = row.paused && row.lastState === "working" ? "input-required" : row.lastState;
  const agentName = titleOf(row.agent);
  return (
    <div class="session" data-session-id={row.id}>
      <PageLink href={address(chat(row.id))} here={here} dir="auto" title={[title, agentName, fullTime(row.updatedAt)].filter(Boolean).join("\n")}>
        <span class="what">
          <span class="title">{title}</span>
          <small>{agentName}</small>
        </span>
        <span class="state-dot" data-state={state} role="img" aria-label={strings.states[state]} title={strings.states[state]} />
      </PageLink>
      {mayWrite.value && (
        <span class="session-tools">
          <IconButton icon="pencil" label={`${strings.chat.rename}: ${title}`} size={15} onClick={() => setRenaming(true)} />
          <IconButton icon="trash" label={`${strings.chat.remove}: ${title}`} size={15} onClick={() => remove(row)} />
        </span>
      )}
    </div>
  );
}

/** Put the focus on a title, all of which is written over then. */
const select = (field: HTMLInputElement | null) => field?.select();

function Rename({ row, done }: { row: SessionRow; done: () => void }) {
  const save = async ({ currentTarget: field }: { currentTarget: HTMLInputElement }) => {
    const title = field.value.trim();
    if (title && title !== row.title) {
      const failure = await sessions.rename(row.id, title);
      if (failure) return toastFailure(failure, strings.chat.rename);
      if (session.value?.id === row.id) session.value.set({ title });
    }
    done();
  };
  return (
    <input ref={select} class="field" dir="auto" aria-label={strings.chat.renameLabel} defaultValue={row.title}
      onBlur={(event) => void save(event)}
      onKeyDown={(event) => {
        if (event.isComposing || !["Enter", "Escape"].includes(event.key)) return;
        event.stopPropagation();
        if (event.key === "Escape") event.currentTarget.value = row.title;
        void save(event);
      }} />
  );
}

function remove({ id, title }: SessionRow): void {
  sessions.remove(id, (failure) => toastFailure(failure, strings.chat.remove));
  const open = route.value.session === id;
  const run = () => {
    sessions.keep(id);
    if (open) go(chat(id));
    setTimeout(() => document.querySelector<HTMLElement>(`[data-session-id="${CSS.escape(id)}"] a`)?.focus());
  };
  toast(strings.chat.removed(title || strings.chat.untitled), { ms: 10_000, action: { label: strings.chat.undo, run } });
  if (open) newChat();
}
