/** Giving a session to somebody else: links, documents, files. */

import "../../style/panel.css";
import { useRef } from "preact/hooks";
import { failureOf } from "../../model/failures";
import { document as documentOf, markdown } from "../../model/transcript";
import type { Message } from "../../model/view";
import { address, api, chat, session, view } from "../../state";
import { strings } from "../../strings";
import { walk } from "../controls";
import { copy } from "../copy";
import { Icon, type IconName } from "../icons";
import { toastFailure } from "../toasts";
import { save } from "./save";

export { Import } from "./import";

const PAGE = 1000;
const WAYS: readonly (readonly [keyof typeof strings.share.ways, IconName, () => Promise<unknown>])[] = [
  ["copyLink", "link", () => copy(address(chat(view.value?.id ?? "")))],
  ["copyMarkdown", "copy", async () => copy(await transcript())],
  ["markdown", "file", async () => keep("md", await transcript())],
  ["json", "file", async () => keep("json", documentOf(await (await exported()).text()))],
  ["file", "file", async () => keep("ndjson", await exported())],
];

/** The button of a session's head, and the list that it opens. */
export function Export() {
  const box = useRef<HTMLDivElement>(null);
  const choose = (act: () => Promise<unknown>) => {
    box.current?.hidePopover();
    void act().catch((error: unknown) => toastFailure(failureOf(error)));
  };
  return (
    <>
      <button type="button" class="button quiet" popovertarget="export" aria-label={strings.share.export} title={strings.share.export}>
        <Icon name="download" size={16} />
      </button>
      <div id="export" ref={box} class="menu" popover="auto" onKeyDown={(event) => walk(event, "button")}>
        {WAYS.map(([name, icon, act]) => (
          <button key={name} type="button" onClick={() => choose(act)}>
            <Icon name={icon} size={16} /> {strings.share.ways[name]}
          </button>
        ))}
      </div>
    </>
  );
}

function exported(): Promise<Blob> {
  return api.exportSession(view.value?.id ?? "");
}

function keep(ending: string, content: BlobPart): void {
  const title = view.value?.title.replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-|-$/g, "").slice(0, 60);
  save(new Blob([content]), `${title || "session"}.${ending}`);
}

/** Return the whole conversation as Markdown, also what the page has not loaded. */
async function transcript(): Promise<string> {
  const open = session.value!;
  const messages: Message[] = [];
  for (let before: string | null = ""; before !== null; ) {
    const page: { messages: Message[]; before: string | null } = await api.messages(open.view.value.id, before, PAGE);
    messages.unshift(...page.messages);
    before = page.before;
  }
  await open.loadArtifacts();
  const words = { ...strings.share.transcript, states: strings.states };
  return markdown({ ...open.view.value, title: open.view.value.title || strings.share.untitled, messages }, words);
}
