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

interface Taken {
  readonly file: File;
  readonly title: string;
  readonly id: string;
}

/** The button of the sidebar, and the dialog that tells how the import goes. */
export function Import() {
  const picker = useRef<HTMLInputElement>(null);
  const [taken, setTaken] = useState<Taken | null>(null);
  if (!mayWrite.value || !config.value?.features.import) return null;
  const pick = async (file: File | undefined) => {
    if (!file) return;
    const [first = ""] = (await file.slice(0, 100_000).text()).split("\n");
    const header = object(object(parsed(first))?.["session"]) ?? {};
    setTaken({ file, title: text(header, "title") || file.name, id: text(header, "contextId") });
  };
  return (
    <>
      <IconButton icon="upload" label={strings.share.import} onClick={() => picker.current?.click()} />
      <input
        ref={picker}
        type="file"
        hidden
        accept=".ndjson,application/x-ndjson"
        aria-label={strings.share.file}
        onChange={(event) => {
          void pick(event.currentTarget.files?.[0]);
          event.currentTarget.value = "";
        }}
      />
      {taken && <Progress key={taken.file} taken={taken} close={() => setTaken(null)} />}
    </>
  );
}

function Progress({ taken, close }: { taken: Taken; close: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const [failure, setFailure] = useState<Failure | null>(null);
  const [id, setId] = useState("");
  const bring = (as: string) => {
    setFailure(null);
    api.importSession(taken.file, as).then(
      (session) => {
        close();
        toast(strings.share.imported(taken.title));
        void sessions.load();
        go(chat(session));
      },
      (error: unknown) => {
        const found = failureOf(error);
        setId(`${as || taken.id || "session"}-${Math.random().toString(36).slice(2, 6)}`);
        setFailure(found);
      },
    );
  };
  useEffect(() => {
    dialog.current?.showModal();
    bring("");
  }, []);
  const exists = failure?.status === 409;
  const [what, todo] = failure ? (exists ? strings.share.exists : words(failure)) : ["", ""];
  return (
    <dialog ref={dialog} class="import" aria-labelledby="import-title" onClose={close}>
      <header>
        <h2 id="import-title">{strings.share.importing}</h2>
        <IconButton icon="close" label={strings.share.close} onClick={() => dialog.current?.close()} />
      </header>
      <p dir="auto"><strong>{taken.title}</strong> <small>{bytes(taken.file.size)}</small></p>
      {failure ? (
        <>
          <div class="failure" role="alert" data-code={failure.code}>
            <p>{what} {failure.metadata["line"] ? strings.share.line(failure.metadata["line"]) : ""} {todo}</p>
          </div>
          <form
            class="import-as"
            onSubmit={(event) => {
              event.preventDefault();
              bring(exists ? id.trim() : "");
            }}
          >
            {exists && (
              <label>
                {strings.share.otherId}
                <input class="field" value={id} required maxLength={128} onInput={(event) => setId(event.currentTarget.value)} />
              </label>
            )}
            {(exists || failure.retryable) && <button class="button primary">{exists ? strings.share.importCopy : strings.share.again}</button>}
          </form>
        </>
      ) : (
        <p role="status"><progress aria-label={strings.share.importing} /> {strings.share.wait}</p>
      )}
    </dialog>
  );
}
