/** Giving a session to somebody else, and taking one: links, documents, files. */

import "../../style/panel.css";
import { useEffect, useRef, useState } from "preact/hooks";
import { failureOf } from "../../model/failures";
import { document as documentOf, markdown } from "../../model/transcript";
import type { Message } from "../../model/view";
import { address, api, chat, session, view } from "../../state";
import { strings } from "../../strings";
import { copy } from "../copy";
import { Icon } from "../icons";
import { toast, toastFailure } from "../toasts";
import { save } from "./save";

export { Import } from "./import";

const PAGE = 1000;

/** The button of a session's head, and the menu that it opens. */
export function Export() {
  const [open, setOpen] = useState(false);
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (!open) return;
    box.current?.querySelector<HTMLElement>("[role=menuitem]")?.focus();
    const away = (event: Event) => {
      if (!box.current?.contains(event.target as Node)) setOpen(false);
    };
    addEventListener("pointerdown", away);
    return () => removeEventListener("pointerdown", away);
  }, [open]);
  const keys = (event: KeyboardEvent) => {
    const items = [...(box.current?.querySelectorAll<HTMLElement>("[role=menuitem]") ?? [])];
    const at = items.indexOf(event.target as HTMLElement);
    const to = { ArrowDown: at + 1, ArrowUp: at - 1 + items.length, Home: 0, End: items.length - 1 }[event.key];
    if (event.key === "Escape" || event.key === "Tab") close(event.key === "Escape");
    if (to === undefined && event.key !== "Escape") return;
    event.preventDefault();
    if (to !== undefined) items[to % items.length]?.focus();
  };
  const close = (focus: boolean) => {
    setOpen(false);
    if (focus) box.current?.querySelector("button")?.focus();
  };
  return (
    <div class="menu-box" ref={box} onKeyDown={open ? keys : undefined}>
      <button type="button" class="button quiet" aria-label={strings.share.export} title={strings.share.export} aria-haspopup="menu" aria-expanded={open} onClick={() => setOpen(!open)}>
        <Icon name="download" size={16} />
      </button>
      {open && (
        <div class="menu" role="menu" aria-label={strings.share.export}>
          {ITEMS.map(([name, icon, act]) => (
            <button
              key={name}
              type="button"
              role="menuitem"
              tabIndex={-1}
              onClick={() => {
                close(true);
                void act().catch((error: unknown) => toastFailure(failureOf(error)));
              }}
            >
              <Icon name={icon} size={16} /> {strings.share[name]}
            </button>
          ))}
        </div>
      )}
    </div>
  );
}

const ITEMS = [
  ["copyLink", "link", () => copy(address(chat(view.value?.id ?? "")))],
  ["copyMarkdown", "copy", async () => copy(await transcript())],
  ["exportMarkdown", "file", async () => keep("md", new Blob([await transcript()], { type: "text/markdown" }))],
  ["exportJson", "file", async () => keep("json", new Blob([documentOf(await (await exported()).text())], { type: "application/json" }))],
  ["exportFile", "file", async () => keep("ndjson", await exported())],
] as const;

function exported(): Promise<Blob> {
  return api.exportSession(view.value?.id ?? "");
}

function keep(ending: string, content: Blob): void {
  const open = view.value;
  const name = (open?.title || open?.id || "session").replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-|-$/g, "").slice(0, 60);
  save(content, `${name || "session"}.${ending}`);
  toast(strings.share.saved(`${name || "session"}.${ending}`), { ms: 2500 });
}

/** Return the whole conversation as Markdown, also what the page has not loaded. */
async function transcript(): Promise<string> {
  const open = view.value;
  if (!open) return "";
  const messages: Message[] = [];
  for (let before: string | null = ""; before !== null; ) {
    const page: { messages: Message[]; before: string | null } = await api.messages(open.id, before, PAGE);
    messages.unshift(...page.messages);
    before = page.before;
  }
  await session.value?.loadArtifacts();
  const { title, agent, tasks, artifacts } = session.value?.view ?? open;
  return markdown({ title: title || strings.share.untitled, agent, messages, tasks, artifacts }, { ...strings.share.transcript, states: strings.states });
}
