/** Giving a session to somebody else, as links, documents and files, and taking one from a file. */

import { useRef } from "preact/hooks";
import { newId } from "../model/events";
import { failureOf } from "../model/http";
import { address, api, chat, go, sessions, view } from "../state";
import { strings } from "../strings";
import { copy } from "./acts";
import { Icon, IconButton, walk, type IconName } from "./controls";
import { bytes } from "./format";
import { toast, toastError, words } from "./toasts";

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
  return (
    <>
      <IconButton icon="download" label={strings.share.export} popovertarget="export" />
      <div id="export" class="menu" popover="auto" onKeyDown={(event) => walk(event, "button")}>
        {WAYS.map(([name, icon, act]) => (
          <button key={name} type="button" class="row-link" popovertarget="export"
            onClick={() => void act().catch(toastError(strings.share.export))}>
            <Icon name={icon} size={16} /> {strings.share.ways[name]}
          </button>
        ))}
      </div>
    </>
  );
}

/** Import a file, which may take long, as a copy with an id if one is given. */
async function bring(file: File, id = ""): Promise<void> {
  const reading = api.importSession(file, id);
  toast(strings.share.importing(file.name, bytes(file.size)), { until: reading });
  try {
    go(chat(await reading));
    void sessions.load();
    toast(strings.share.imported(file.name));
  } catch (error) {
    const failure = failureOf(error);
    const exists = failure.status === 409;
    // An answer was lost: the copy is there.
    if (exists && id) return go(chat(id));
    const label = exists ? strings.share.importCopy : strings.chat.retry;
    const action = exists || failure.retryable ? { label, run: () => void bring(file, exists ? newId() : id) } : undefined;
    const said = exists ? strings.share.exists : words(failure);
    toast(`${file.name}: ${said.join(" ")}`, { code: failure.code, action });
  }
}

/** The button of the sidebar. */
export function Import() {
  const picker = useRef<HTMLInputElement>(null);
  const pick = ({ currentTarget }: { currentTarget: HTMLInputElement }) => {
    void bring(currentTarget.files![0]!);
    currentTarget.value = "";
  };
  return (
    <>
      <IconButton icon="upload" label={strings.share.import} onClick={() => picker.current?.click()} />
      <input ref={picker} type="file" hidden accept=".ndjson" aria-label={strings.share.file} onChange={pick} />
    </>
  );
}

/** Let the browser store a file. The key of the caller is in a header of the request, never in an address. */
export function save(content: Blob, name: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(content);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}
