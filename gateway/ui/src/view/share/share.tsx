/** Giving a session to somebody else, as links, documents and files, and taking one from a file. */

import "../../style/panel.css";
import { useRef, useState } from "preact/hooks";
import { failureOf } from "../../model/failures";
import { newId } from "../../model/outgoing";
import type { Failure } from "../../model/view";
import { address, api, chat, config, go, mayWrite, sessions, view } from "../../state";
import { strings } from "../../strings";
import { Dialog, walk } from "../controls";
import { copy } from "../copy";
import { bytes } from "../format";
import { Button, Icon, IconButton, type IconName } from "../icons";
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

/** The button of the sidebar, and the dialog that tells how the import goes. */
export function Import() {
  const picker = useRef<HTMLInputElement>(null);
  const [file, setFile] = useState<File | null>(null);
  const [failure, setFailure] = useState<Failure | null>(null);
  if (!mayWrite.value || !config.value?.features.import) return null;
  const bring = async (given: File, id = "") => {
    setFailure(null);
    try {
      const session = await api.importSession(given, id);
      setFile(null);
      toast(strings.share.imported(given.name));
      void sessions.load();
      go(chat(session));
    } catch (error) {
      setFailure(failureOf(error));
    }
  };
  const pick = ({ currentTarget }: { currentTarget: HTMLInputElement }) => {
    const given = currentTarget.files![0]!;
    currentTarget.value = "";
    setFile(given);
    void bring(given);
  };
  const exists = failure?.status === 409;
  const [what, todo] = exists ? strings.share.exists : words(failure ?? { code: "" });
  return (
    <>
      <IconButton icon="upload" label={strings.share.import} onClick={() => picker.current?.click()} />
      <input ref={picker} type="file" hidden accept=".ndjson" aria-label={strings.share.file} onChange={pick} />
      {file && (
        <Dialog title={strings.share.importing(file.name, bytes(file.size))} close={() => setFile(null)}>
          {!failure && <p role="status"><progress aria-label={strings.share.wait} /> {strings.share.wait}</p>}
          {failure && (
            <div class="try">
              <p class="failure" role="alert" data-code={failure.code}>{what} {todo}</p>
              {exists && <Button kind="primary" label={strings.share.importCopy} act={() => void bring(file, newId())} />}
              {failure.retryable && <Button kind="primary" label={strings.chat.retry} act={() => void bring(file)} />}
            </div>
          )}
        </Dialog>
      )}
    </>
  );
}
