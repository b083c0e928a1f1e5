/** What concerns the whole page: no network, a lost connection, a new version; and a notice of the open session. */

import { signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { route, session, view } from "../state";
import { strings } from "../strings";
import { Button, Icon, IconButton } from "./icons";
import { outdated } from "./lazy";
import { words } from "./toasts";

const KINDS = Object.keys(strings.banners) as (keyof typeof strings.banners)[];
/** The browser says that it has a network. */
export const online = signal(navigator.onLine);
for (const name of ["online", "offline"]) addEventListener(name, () => (online.value = name === "online"));

/** Show the banners that hold now. */
export function Banners() {
  const { connection, notice } = view.value ?? {};
  const lost = online.value && connection === "lost";
  const holds = { offline: !online.value, lost, waiting: connection === "waiting", gone: isGone(), update: outdated.value };
  return (
    <div class="banners">
      {KINDS.map((kind) => holds[kind] && (
        <Banner key={kind} kind={kind} words={strings.banners[kind]}>
          {kind === "update" && <Button kind="small" label={strings.chat.reload} act={() => location.reload()} />}
        </Banner>
      ))}
      {notice && (
        <Banner kind="notice" code={notice.code} words={words({ code: notice.code, message: notice.message }).join(" ")}>
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

function Banner({ kind, words, code, children }: { kind: string; words: string; code?: string; children?: ComponentChildren }) {
  return (
    <div class="banner" role="status" data-banner={kind} data-code={code}>
      <Icon name="alert" size={16} />
      <span dir="auto">{words}</span>
      {children}
    </div>
  );
}
