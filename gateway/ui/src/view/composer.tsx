/** The box for a message: it grows with its text, takes files, and keeps what the server has not accepted. */

import { signal } from "@preact/signals";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { sizeOf } from "../model/artifacts";
import type { Part } from "../model/view";
import { config, mayWrite, route, session, view } from "../state";
import { strings } from "../strings";
import { draft, edit, send, sending } from "./acts";
import { cards, titleOf, useCard } from "./card";
import { Button, Icon, IconButton, type IconName } from "./controls";
import { accepts, bytes, firstLine } from "./format";

/** Base64 has four characters for three bytes; the rest of the request has some room beside it. */
const ROOM = 0.74;
/** Bytes for the text beside the files. */
const TEXT = 64_000;

/** Files are held above the page. */
const dragging = signal(false);

/** Show the message box of the open session. */
export function Composer() {
  const open = view.value;
  const agent = open?.agent ?? "";
  const { text, files, refusal } = draft.value;
  const box = useRef<HTMLTextAreaElement>(null);
  const picker = useRef<HTMLInputElement>(null);
  useCard(agent);
  useLayoutEffect(() => {
    const area = box.current;
    if (!area || CSS.supports("field-sizing", "content")) return;
    area.style.height = "auto";
    area.style.height = `${area.scrollHeight}px`;
  }, [text]);
  useEffect(() => {
    if (matchMedia("(hover: hover)").matches && document.activeElement?.matches("body, main")) box.current?.focus();
  }, [route.value.session]);

  // There is nobody to write to.
  if (open?.status === "new" && !agent) return null;
  if (!mayWrite.value) return <p class="composer read-only">{strings.chat.readOnly}</p>;
  const submit = (event: Event) => {
    event.preventDefault();
    void send();
  };
  const hint = dragging.value ? strings.chat.drop : open?.paused ? strings.chat.answerHint : strings.chat.messageHint(titleOf(agent));
  const empty = !text.trim() && !files.length;
  return (
    <form class="composer" data-dragging={dragging.value || undefined} onSubmit={submit}>
      <Chips />
      {refusal && <p class="failure" role="alert" data-code="FILE_REFUSED">{refusal}</p>}
      <textarea
        id="message" ref={box} rows={1} dir="auto" value={text} placeholder={hint}
        aria-label={strings.chat.message} aria-describedby="message-hint"
        onInput={(event) => edit({ text: event.currentTarget.value })}
        onPaste={take}
        onKeyDown={(event) => {
          if (event.key === "Enter" && !event.shiftKey && !event.isComposing && event.keyCode !== 229) submit(event);
        }} />
      <div class="composer-row">
        <IconButton icon="attach" label={strings.chat.attach} onClick={() => picker.current?.click()} />
        <input
          ref={picker} type="file" multiple hidden onChange={(event) => void attach(event.currentTarget.files!)}
          onClick={(event) => (event.currentTarget.value = "")} />
        <span id="message-hint" class="hint">{strings.chat.keysHint}</span>
        {open?.running && (
          <Button icon="stop" label={open.stopping ? strings.chat.stopping : strings.chat.stop}
            disabled={open.stopping} act={() => void session.value?.stop()} />
        )}
        <button class="send" aria-label={strings.chat.send} title={strings.chat.send} disabled={empty || sending.value}>
          {sending.value ? <span class="spinner" /> : <Icon name="send" />}
        </button>
      </div>
    </form>
  );
}

/** Take files that are pasted into the box, or dropped anywhere beside it: a browser would leave the page for them. */
function take(event: ClipboardEvent | DragEvent): void {
  const data = "dataTransfer" in event ? event.dataTransfer : event.clipboardData;
  if (!data?.types.includes("Files") || !document.getElementById("message")) return;
  event.preventDefault();
  dragging.value = event.type === "dragover" || (event.type === "dragleave" && (event as DragEvent).relatedTarget !== null);
  if (["drop", "paste"].includes(event.type)) void attach(data.files);
}
for (const name of ["dragover", "drop", "dragleave"] as const) document.addEventListener(name, take);

/** Attach files to the draft. What the agent does not take, or a request has no room for, is refused before a byte is sent. */
async function attach(given: FileList): Promise<void> {
  const modes = cards.value.get(view.value?.agent ?? "")?.card.defaultInputModes ?? [];
  const { body = 0, message = 0 } = config.value?.limits ?? {};
  const limit = Math.floor(Math.min(body * ROOM, message - TEXT));
  edit({ refusal: "" });
  for (const file of [...given]) {
    const { name: filename } = file;
    const mediaType = file.type || "application/octet-stream";
    const size = draft.value.files.reduce((sum, part) => sum + sizeOf(part), file.size);
    if (modes.length && !accepts(modes, mediaType)) edit({ refusal: strings.chat.fileRefused(filename, mediaType, modes.join(", ")) });
    else if (size > limit) edit({ refusal: strings.chat.fileTooBig(filename, bytes(limit)) });
    else {
      const reader = new FileReader();
      reader.readAsDataURL(file);
      await new Promise((done) => (reader.onloadend = done));
      const raw = String(reader.result).split(",", 2)[1] ?? "";
      if (reader.error) edit({ refusal: strings.chat.fileUnreadable(filename) });
      else edit({ files: [...draft.value.files, { raw, filename, mediaType }] });
    }
  }
}

/** What goes with the message: the task that it replies to, and files. */
function Chips() {
  const { files } = draft.value;
  const { replyTo = "", rows = [] } = view.value ?? {};
  if (!replyTo && !files.length) return null;
  const row = rows.find((one) => one.kind === "message" && one.message.taskId === replyTo);
  const reply = strings.chat.replying(row?.kind === "message" ? firstLine(row.message.text) : replyTo);
  return (
    <ul class="chips" aria-label={strings.chat.attached}>
      {replyTo && <Chip icon="reply" filename={reply} off={strings.chat.noReply} drop={() => session.value?.set({ replyTo: "" })} />}
      {files.map((file, index) => (
        <Chip key={index} {...file} off={strings.chat.detach(file.filename ?? "")}
          drop={() => edit({ files: files.filter((one) => one !== file), refusal: "" })} />
      ))}
    </ul>
  );
}

function Chip({ icon = "file", filename, mediaType = "", raw, off, drop }: Part & { icon?: IconName; off: string; drop: () => void }) {
  return (
    <li class="chip">
      {mediaType.startsWith("image/") ? <img src={`data:${mediaType};base64,${raw}`} alt="" /> : <Icon name={icon} size={16} />}
      <span dir="auto">{filename}</span>
      {raw !== undefined && <small>{bytes(sizeOf({ raw }))}</small>}
      <IconButton icon="close" label={off} size={14} onClick={drop} />
    </li>
  );
}
