/** Taking a session from a file that was exported here or elsewhere. */

import { useEffect, useRef, useState } from "preact/hooks";
import { failureOf } from "../../model/failures";
import { object, parsed, text } from "../../model/json";
import type { Failure } from "../../model/view";
import { api, chat, config, go, mayWrite, sessions } from "../../state";
import { strings } from "../../strings";
import { bytes } from "../format";
import { IconButton } from "../icons";
import { toast, words } from "../toasts";

/** The button of the sidebar, and the dialog that tells how the import goes. */
export function Import() {
  const picker = useRef<HTMLInputElement>(null);
  const [file, setFile] = useState<File | null>(null);
  if (!mayWrite.value || !config.value?.features.import) return null;
  const pick = () => {
    setFile(picker.current!.files?.[0] ?? null);
    picker.current!.value = "";
  };
  return (
    <>
      <IconButton icon="upload" label={strings.share.import} onClick={() => picker.current?.click()} />
      <input ref={picker} type="file" hidden accept=".ndjson" aria-label={strings.share.file} onChange={pick} />
      {file && <Progress key={file} file={file} close={() => setFile(null)} />}
    </>
  );
}

function Progress({ file, close }: { file: File; close: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const [failure, setFailure] = useState<Failure | null>(null);
  const [id, setId] = useState("");
  const bring = async (as: string) => {
    setFailure(null);
    try {
      const session = await api.importSession(file, as);
      close();
      toast(strings.share.imported(file.name));
      void sessions.load();
      go(chat(session));
    } catch (error) {
      const [first = ""] = (await file.slice(0, 100_000).text()).split("\n");
      const given = text(object(object(parsed(first))?.["session"]) ?? {}, "contextId") || "session";
      setId(`${given}-${Math.random().toString(36).slice(2, 6)}`);
      setFailure(failureOf(error));
    }
  };
  useEffect(() => {
    dialog.current?.showModal();
    void bring("");
  }, []);
  const exists = failure?.status === 409;
  const [what, todo] = failure ? (exists ? strings.share.exists : words(failure)) : ["", ""];
  const line = failure?.metadata["line"];
  const again = (event: Event) => {
    event.preventDefault();
    void bring(exists ? id.trim() : "");
  };
  return (
    <dialog ref={dialog} aria-labelledby="import-title" onClose={close}>
      <header>
        <h2 id="import-title">{strings.share.importing(file.name, bytes(file.size))}</h2>
        <IconButton icon="close" label={strings.share.close} onClick={() => dialog.current?.close()} />
      </header>
      {!failure && <p role="status"><progress aria-label={strings.share.wait} /> {strings.share.wait}</p>}
      {failure && (
        <form class="try" onSubmit={again}>
          <p class="failure" role="alert" data-code={failure.code}>{[what, line && !what.includes(line) && strings.share.line(line), todo].filter(Boolean).join(" ")}</p>
          {exists && (
            <label>
              {strings.share.otherId}
              <input class="field" value={id} required maxLength={128} onInput={(event) => setId(event.currentTarget.value)} />
            </label>
          )}
          {(exists || failure.retryable) && (
            <button class="button primary">{exists ? strings.share.importCopy : strings.agent.again}</button>
          )}
        </form>
      )}
    </dialog>
  );
}
