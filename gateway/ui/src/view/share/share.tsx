/** Giving a session to somebody else, as links, documents and files, and taking one from a file. */

import "../../style/panel.css";
import { useRef, useState } from "preact/hooks";
import { failureOf } from "../../model/failures";
import { newId } from "../../model/outgoing";
import { address, api, chat, config, go, mayWrite, sessions, view } from "../../state";
import { strings } from "../../strings";
import { walk } from "../controls";
import { copy } from "../copy";
import { bytes } from "../format";
import { Icon, IconButton, type IconName } from "../icons";
import { toast, toastError, words } from "../toasts";
import { save } from "./save";

const exported = (format: string) => api.exportSession(view.value?.id ?? "", format);
const keep = async (format: string, ending = format) =>
  save(await exported(format), `${view.value?.title || "session"}.${ending}`);

const WAYS: readonly (readonly [keyof typeof strings.share.ways, IconName, () => Promise<void>])[] = [
  ["copyLink", "link", () => copy(address(chat(view.value?.id ?? "")))],
  ["copyMarkdown", "copy", async () => copy(await (await exported("markdown")).text())],
  ["markdown", "file", () => keep("markdown", "md")],
  ["json", "file", () => keep("json")],
  ["file", "file", () => keep("ndjson")],
];

/** The button of a session's head, and the list that it opens. */
export function Export() {
  const box = useRef<HTMLDivElement>(null);
  const choose = (act: () => Promise<void>) => {
    box.current?.hidePopover();
    void act().catch(toastError(strings.share.export));
  };
  return (
    <>
      <button type="button" class="button quiet" popovertarget="export" aria-label={strings.share.export} title={strings.share.export}>
        <Icon name="download" size={16} />
      </button>
      <div id="export" ref={box} class="menu" popover="auto" onKeyDown={(event) => walk(event, "button")}>
        {WAYS.map(([name, icon, act]) => (
          <button key={name} type="button" class="row-link" onClick={() => choose(act)}>
            <Icon name={icon} size={16} /> {strings.share.ways[name]}
          </button>
        ))}
      </div>
    </>
  );
}

/** The button of the sidebar. It waits until the file is read, which may take long. */
export function Import() {
  const picker = useRef<HTMLInputElement>(null);
  const [busy, setBusy] = useState(false);
  if (!mayWrite.value || !config.value?.features.import) return null;
  const bring = async (file: File, id = "") => {
    setBusy(true);
    toast(strings.share.importing(file.name, bytes(file.size)));
    try {
      const session = await api.importSession(file, id);
      toast(strings.share.imported(file.name));
      void sessions.load();
      go(chat(session));
    } catch (error) {
      const failure = failureOf(error);
      const exists = failure.status === 409;
      // An answer was lost: the copy is there.
      if (exists && id) return go(chat(id));
      const label = exists ? strings.share.importCopy : strings.chat.retry;
      const action = { label, run: () => void bring(file, exists ? newId() : id) };
      const said = exists ? strings.share.exists : words(failure);
      toast(`${file.name}: ${said.join(" ")}`, { code: failure.code, ...((exists || failure.retryable) && { action }) });
    } finally {
      setBusy(false);
    }
  };
  const pick = ({ currentTarget }: { currentTarget: HTMLInputElement }) => {
    void bring(currentTarget.files![0]!);
    currentTarget.value = "";
  };
  return (
    <>
      {busy && <span class="spinner" role="progressbar" aria-label={strings.share.wait} />}
      {!busy && <IconButton icon="upload" label={strings.share.import} onClick={() => picker.current?.click()} />}
      <input ref={picker} type="file" hidden accept=".ndjson" aria-label={strings.share.file} onChange={pick} />
    </>
  );
}
