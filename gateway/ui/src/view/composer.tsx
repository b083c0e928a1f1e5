/** The box for a message: it grows with its text, takes files, and keeps what the server has not accepted. */

import { signal } from "@preact/signals";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { mayWrite, route, session, view } from "../state";
import { strings } from "../strings";
import { send, sending } from "./acts";
import { attach } from "./attach";
import { titleOf, useCard } from "./card";
import { type Attached, clearFiles, files, openDraft, refusal, text, write } from "./draft";
import { bytes, firstLine } from "./format";
import { Button, Icon, IconButton, type IconName } from "./icons";

/** Files are held above the page. */
const dragging = signal(false);

/** Show the message box of the open session. */
export function Composer() {
  const open = view.value;
  const agent = open?.agent ?? "";
  // By the address: a session has its id before the first message has left the box.
  const id = route.value.name === "chat" ? route.value.session : "";
  const box = useRef<HTMLTextAreaElement>(null);
  const picker = useRef<HTMLInputElement>(null);
  const content = text.value;
  useCard(agent);
  useLayoutEffect(() => openDraft(id), [id]);
  useLayoutEffect(() => {
    const area = box.current;
    if (!area || CSS.supports("field-sizing", "content")) return;
    area.style.height = "auto";
    area.style.height = `${area.scrollHeight}px`;
  }, [content]);
  useEffect(() => {
    if (matchMedia("(hover: hover)").matches && document.activeElement?.matches("body, main")) box.current?.focus();
  }, [id]);

  if (!mayWrite.value) return <p class="composer read-only">{strings.chat.readOnly}</p>;
  const submit = (event: Event) => {
    event.preventDefault();
    void send();
  };
  const take = (event: Event, given: FileList | null | undefined) => {
    if (!given?.length) return;
    event.preventDefault();
    void attach([...given]);
  };
  const hint = dragging.value ? strings.chat.drop : open?.paused ? strings.chat.answerHint : strings.chat.messageHint(titleOf(agent));
  const empty = !content.trim() && !files.value.length;
  return (
    <form class="composer" data-dragging={dragging.value || undefined} onSubmit={submit}>
      <Chips />
      {refusal.value && <p class="failure" role="alert" data-code="FILE_REFUSED">{refusal.value}</p>}
      <textarea
        id="message" ref={box} rows={1} dir="auto" value={content} placeholder={hint}
        aria-label={strings.chat.message} aria-describedby="message-hint"
        onInput={(event) => write(event.currentTarget.value)}
        onPaste={(event) => take(event, event.clipboardData?.files)}
        onKeyDown={(event) => {
          if (event.key === "Enter" && !event.shiftKey && !event.isComposing && event.keyCode !== 229) submit(event);
        }} />
      <div class="composer-row">
        <IconButton icon="attach" label={strings.chat.attach} onClick={() => picker.current?.click()} />
        <input
          ref={picker} type="file" multiple hidden onChange={(event) => take(event, event.currentTarget.files)}
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

/** Take files that are dropped anywhere beside the box: a browser would leave the page for them. */
function drag(event: DragEvent): void {
  if (!event.dataTransfer?.types.includes("Files") || !document.getElementById("message")) return;
  event.preventDefault();
  dragging.value = event.type === "dragover" || (event.type === "dragleave" && event.relatedTarget !== null);
  if (event.type === "drop") void attach([...event.dataTransfer.files]);
}
for (const name of ["dragover", "drop", "dragleave"] as const) document.addEventListener(name, drag);

/** What goes with the message: the task that it replies to, and files. */
function Chips() {
  const { replyTo = "", rows = [] } = view.value ?? {};
  if (!replyTo && !files.value.length) return null;
  const row = rows.find((one) => one.kind === "message" && one.message.taskId === replyTo);
  const reply = strings.chat.replying(row?.kind === "message" ? firstLine(row.message.text) : replyTo);
  return (
    <ul class="chips" aria-label={strings.chat.attached}>
      {replyTo && <Chip icon="reply" name={reply} off={strings.chat.noReply} drop={() => session.value?.set({ replyTo: "" })} />}
      {files.value.map((file, index) => (
        <Chip key={index} {...file} off={strings.chat.detach(file.name)} drop={() => clearFiles(file)} />
      ))}
    </ul>
  );
}

function Chip(props: Partial<Attached> & { icon?: IconName; name: string; off: string; drop: () => void }) {
  const { icon = "file", url, name, size, off, drop } = props;
  return (
    <li class="chip">
      {url ? <img src={url} alt="" /> : <Icon name={icon} size={16} />}
      <span dir="auto">{name}</span>
      {size !== undefined && <small>{bytes(size)}</small>}
      <IconButton icon="close" label={off} size={14} onClick={drop} />
    </li>
  );
}
