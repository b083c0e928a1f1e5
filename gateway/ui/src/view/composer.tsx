/** The box for a message: it grows with its text, takes files, and keeps what the server has not accepted. */

import { signal } from "@preact/signals";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { mayWrite, route, session, view } from "../state";
import { strings } from "../strings";
import { send, sending, stop } from "./acts";
import { attach } from "./attach";
import { useCard } from "./card";
import { clearFiles, files, openDraft, refusal, text, write } from "./draft";
import { bytes, firstLine } from "./format";
import { Icon, IconButton } from "./icons";

/** Files are held above the page. */
const dragging = signal(false);

/** Show the message box of the open session, under the name that the agent has. */
export function Composer({ agent }: { agent: string }) {
  const open = view.value;
  // By the address: a session has its id before the first message has left the box.
  const id = route.value.session;
  const box = useRef<HTMLTextAreaElement>(null);
  const picker = useRef<HTMLInputElement>(null);
  useCard(open?.agent ?? "");
  useDrop();
  const content = text.value;
  useLayoutEffect(() => openDraft(id), [id]);
  useLayoutEffect(() => {
    const area = box.current;
    if (!area || CSS.supports("field-sizing", "content")) return;
    area.style.height = "auto";
    area.style.height = `${area.scrollHeight}px`;
  }, [content]);
  useEffect(() => {
    if (matchMedia("(hover: hover)").matches && document.activeElement === document.body) box.current?.focus();
  }, [id]);

  const filled = content.trim() !== "" || files.value.length > 0;
  if (!mayWrite.value) return <p class="composer read-only">{strings.chat.readOnly}</p>;
  return (
    <form
      class="composer"
      data-dragging={dragging.value || undefined}
      onSubmit={(event) => {
        event.preventDefault();
        void send();
      }}
    >
      <ReplyTo />
      <Files />
      {refusal.value && <p class="failure" role="alert" data-code="FILE_REFUSED">{refusal.value}</p>}
      <textarea
        id="message"
        ref={box}
        rows={1}
        dir="auto"
        aria-label={strings.chat.message}
        aria-describedby="message-hint"
        placeholder={dragging.value ? strings.chat.drop : open?.paused ? strings.chat.answerHint : strings.chat.messageHint(agent)}
        value={content}
        onInput={(event) => write(event.currentTarget.value)}
        onPaste={(event) => {
          if (!event.clipboardData?.files.length) return;
          event.preventDefault();
          void attach([...event.clipboardData.files]);
        }}
        onKeyDown={(event) => {
          if (event.key !== "Enter" || event.shiftKey || event.isComposing || event.keyCode === 229) return;
          event.preventDefault();
          void send();
        }}
      />
      <div class="composer-row">
        <IconButton icon="attach" label={strings.chat.attach} onClick={() => picker.current?.click()} />
        <input
          ref={picker}
          type="file"
          multiple
          hidden
          onChange={(event) => {
            void attach([...(event.currentTarget.files ?? [])]);
            event.currentTarget.value = "";
          }}
        />
        <span id="message-hint" class="hint">{strings.chat.keysHint}</span>
        <Stop />
        <button type="submit" class="send" aria-label={strings.chat.send} title={strings.chat.send} disabled={!filled || sending.value}>
          {sending.value ? <span class="spinner" /> : <Icon name="send" />}
        </button>
      </div>
    </form>
  );
}

/** Take files that are dropped anywhere: a browser would leave the page for them. */
function useDrop(): void {
  useEffect(() => {
    const over = (event: DragEvent) => {
      if (!event.dataTransfer?.types.includes("Files")) return;
      event.preventDefault();
      dragging.value = event.type === "dragover";
      if (event.type === "drop") void attach([...event.dataTransfer.files]);
    };
    const left = (event: DragEvent) => {
      if (!event.relatedTarget) dragging.value = false;
    };
    document.addEventListener("dragover", over);
    document.addEventListener("drop", over);
    document.addEventListener("dragleave", left);
    return () => {
      document.removeEventListener("dragover", over);
      document.removeEventListener("drop", over);
      document.removeEventListener("dragleave", left);
    };
  }, []);
}

/** The button that stops the running task; it says what the server says. */
function Stop() {
  const open = view.value;
  if (!open?.running) return null;
  return (
    <button type="button" class="button stop" disabled={open.stopping} onClick={stop}>
      <Icon name="stop" size={16} />
      {open.stopping ? strings.chat.stopping : strings.chat.stop}
    </button>
  );
}

function ReplyTo() {
  const open = view.value;
  if (!open?.replyTo) return null;
  const row = open.rows.find((one) => one.kind === "message" && one.message.taskId === open.replyTo);
  const about = row?.kind === "message" ? firstLine(row.message.text) : open.replyTo;
  return (
    <div class="chips">
      <span class="chip">
        <Icon name="reply" size={16} />
        <span dir="auto">{strings.chat.replying(about)}</span>
        <IconButton icon="close" label={strings.chat.noReply} size={14} onClick={() => session.value?.set({ replyTo: "" })} />
      </span>
    </div>
  );
}

function Files() {
  if (!files.value.length) return null;
  return (
    <ul class="chips" aria-label={strings.chat.attached}>
      {files.value.map((file, index) => (
        <li key={index} class="chip">
          {file.url ? <img src={file.url} alt="" /> : <Icon name="file" size={16} />}
          <span dir="auto">{file.name}</span>
          <small>{bytes(file.size)}</small>
          <IconButton icon="close" label={strings.chat.detach(file.name)} size={14} onClick={() => clearFiles(file)} />
        </li>
      ))}
    </ul>
  );
}
