/** The sessions of the caller: to find, open, rename and delete them, and to begin a new one. */

import { signal } from "@preact/signals";
import type { ComponentProps } from "preact";
import { useEffect, useRef } from "preact/hooks";
import type { SessionRow } from "../model/api";
import { ACTIVE } from "../model/states";
import { address, agent, chat, config, drawer, go, key, mayOperate, mayRead, mayWrite, route, session, sessions, signIn } from "../state";
import { strings } from "../strings";
import { focusBox } from "./acts";
import { Choice, useEvery } from "./controls";
import { forgetDrafts } from "./draft";
import { dayOf, fullTime } from "./format";
import { Button, Icon, IconButton } from "./icons";
import { chooseAgent, help, newChat } from "./keyboard";
import { Import } from "./parts";
import { nextTheme, theme } from "./theme";
import { toast, toastFailure, words } from "./toasts";

/** The session whose title is edited, with the title that is in the field at first. */
const renaming = signal<SessionRow | null>(null);
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
      {mayRead.value && agents.length > 1 && (
        <Choice label={strings.chat.newAgent} value={agent.value} act={chooseAgent}
          options={agents.map(({ name, title }) => [name, title || name])} />
      )}
      {mayWrite.value && <Button icon="plus" label={strings.chat.newChat} act={newChat} />}
      {mayRead.value && [<Search />, <Sessions />]}
      <footer>
        {mayOperate.value && config.value?.features.ops && (
          <PageLink href={address({ name: "ops" })} here={route.value.name === "ops"} class="row-link">
            <Icon name="operations" size={16} /> {strings.chat.operations}
          </PageLink>
        )}
        <div class="tools-row">
          <Import />
          <IconButton icon={theme.value} label={`${strings.chat.theme}: ${strings.chat.themes[theme.value]}`} onClick={nextTheme} />
          <IconButton icon="keyboard" label={strings.chat.shortcuts} onClick={() => (help.value = true)} />
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

/** A link within the page, which the browser follows only if the reader wants it in another tab; `here`: it is shown. */
export function PageLink({ href, here, ...rest }: Omit<ComponentProps<"a">, "role"> & { href: string; here?: boolean }) {
  const visit = (event: MouseEvent) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
    event.preventDefault();
    go(href);
  };
  return <a href={href} aria-current={here ? "page" : undefined} onClick={visit} {...rest} />;
}

function Search() {
  const query = sessions.query.value;
  return (
    <input id="search" type="search" class="field" aria-label={strings.chat.search} placeholder={strings.chat.searchHint}
      value={query} onInput={(event) => sessions.search(event.currentTarget.value)}
      onKeyDown={(event) => {
        if (event.key !== "Escape" || (drawer.value && !query)) return;
        event.stopPropagation();
        if (query) sessions.search("");
        else focusBox();
      }} />
  );
}

function Sessions() {
  const rows = sessions.rows.value;
  const failure = sessions.failure.value;
  const hasMore = sessions.next.value !== "";
  const end = useRef<HTMLLIElement>(null);
  useEffect(() => {
    if (!end.current) return;
    const near = new IntersectionObserver(([entry]) => entry?.isIntersecting && void sessions.more(), { rootMargin: "400px" });
    near.observe(end.current);
    return () => near.disconnect();
  }, [hasMore, rows.length]);
  const atWork = rows.some(({ lastState, paused }) => ACTIVE.has(lastState) && !paused);
  useEvery(atWork || failure ? AT_WORK_MS : 0, () => sessions.load());
  const nothing = sessions.query.value ? strings.chat.nothingFound(sessions.query.value) : strings.chat.noSessions;
  return (
    <nav class="sessions" aria-label={strings.chat.sessions}>
      {failure && <p class="aside" role="alert" data-code={failure.code}>{words(failure).join(" ")}</p>}
      {!rows.length && !failure && !sessions.loading.value && <p class="aside" role="status">{nothing}</p>}
      <ul>
        {rows.map((row, index) => {
          const day = dayOf(row.updatedAt);
          const begins = !index || day !== dayOf(rows[index - 1]!.updatedAt);
          return (
            <li key={row.id} class={begins ? "begins" : undefined}>
              {begins && <h2>{day}</h2>}
              <Session row={row} />
            </li>
          );
        })}
        {hasMore && <li ref={end} class="aside">{strings.chat.moreSessions}</li>}
      </ul>
    </nav>
  );
}

function Session({ row }: { row: SessionRow }) {
  const title = row.title || strings.chat.untitled;
  const here = route.value.session === row.id;
  if (renaming.value?.id === row.id) return <Rename row={row} given={renaming.value.title} />;
  const rename = () => (renaming.value = row);
  const discard = () => remove(row);
  const keys: Readonly<Record<string, () => void>> = { F2: rename, Delete: discard };
  const state = row.paused && row.lastState === "working" ? "input-required" : row.lastState;
  return (
    <div class="session" data-session-id={row.id}>
      <PageLink href={address(chat(row.id))} here={here} dir="auto" title={`${title}\n${fullTime(row.updatedAt)}`}
        onKeyDown={(event) => mayWrite.value && keys[event.key]?.()}>
        <span class="title">{title}</span>
        <span class="state-dot" data-state={state} role="img" aria-label={strings.states[state]} title={strings.states[state]} />
      </PageLink>
      {mayWrite.value && (
        <span class="session-tools">
          <IconButton icon="pencil" label={`${strings.chat.rename}: ${title}`} size={15} onClick={rename} />
          <IconButton icon="trash" label={`${strings.chat.remove}: ${title}`} size={15} onClick={discard} />
        </span>
      )}
    </div>
  );
}

function Rename({ row, given }: { row: SessionRow; given: string }) {
  const box = useRef<HTMLInputElement>(null);
  useEffect(() => box.current?.select(), []);
  const done = (save: boolean) => {
    const name = box.current!.value.trim();
    renaming.value = null;
    if (!save || !name || name === row.title) return;
    void sessions.rename(row.id, name).then((failure) => {
      if (!failure) return session.value?.id === row.id && session.value.set({ title: name });
      toastFailure(failure, strings.chat.rename);
      renaming.value = { ...row, title: name };
    });
  };
  return (
    <input ref={box} class="field" dir="auto" aria-label={strings.chat.renameLabel} defaultValue={given}
      onBlur={() => renaming.value?.id === row.id && done(true)}
      onKeyDown={(event) => {
        if (event.isComposing) return;
        event.stopPropagation();
        if (["Enter", "Escape"].includes(event.key)) done(event.key === "Enter");
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
