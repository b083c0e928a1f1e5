/** One message: its text, its files, when it came, and what can be done with it. */

import type { Message, Part, Row } from "../model/view";
import { address, chat, mayWrite, panel, selected, session, view } from "../state";
import { strings } from "../strings";
import { discard, focusBox, retry, rewind, sending } from "./acts";
import { copy } from "./copy";
import { safeLink } from "./blocks";
import { bytes, fullTime, pretty, time } from "./format";
import { Icon, IconButton } from "./icons";
import { Markdown } from "./markdown";
import { words } from "./toasts";

type MessageRow = Extract<Row, { kind: "message" }>;

/** Show a message of the user as it was typed, one of the agent as markdown. */
export function MessageView({ row }: { row: MessageRow }) {
  const { message, live, interrupted } = row;
  return (
    <article
      class={`message ${message.role}`}
      data-message-id={message.id}
      data-role={message.role}
      data-task-id={message.taskId}
      aria-busy={live || undefined}
      aria-label={message.role === "user" ? strings.chat.you : strings.chat.agent}
    >
      {message.role === "user" ? message.text && <p class="bubble" dir="auto">{message.text}</p> : <Markdown text={message.text} live={live} />}
      <Attachments parts={message.parts} />
      {interrupted && <p class="aside">{strings.chat.interrupted}</p>}
      {row.sending ? <Sending row={row} state={row.sending} /> : !live && <Actions row={row} />}
    </article>
  );
}

function Actions({ row: { message, canRewind } }: { row: MessageRow }) {
  const open = view.value;
  return (
    <footer class="actions" role="group" aria-label={strings.chat.messageActions}>
      {message.at && <time dateTime={message.at} title={fullTime(message.at)}>{time(message.at)}</time>}
      <IconButton icon="copy" label={strings.chat.copy} size={15} onClick={() => void copy(message.text)} />
      {message.id && open?.id && (
        <IconButton icon="link" label={strings.chat.copyLink} size={15} onClick={() => void copy(address(chat(open.id, { message: message.id })))} />
      )}
      {message.id && message.taskId && (
        <IconButton
          icon="events"
          label={strings.chat.showEvents}
          size={15}
          onClick={() => {
            selected.value = message.id;
            panel.value = "events";
          }}
        />
      )}
      {message.role === "agent" && message.taskId && open?.tasks.at(-1)?.id !== message.taskId && mayWrite.value && (
        <IconButton
          icon="reply"
          label={strings.chat.reply}
          size={15}
          onClick={() => {
            session.value?.replyTo(message.taskId);
            focusBox();
          }}
        />
      )}
      {canRewind && mayWrite.value && (
        <IconButton icon="rewind" label={strings.chat.rewind} size={15} disabled={open?.rewinding ?? true} onClick={() => void rewind(message.invocationId)} />
      )}
    </footer>
  );
}

function Sending({ row, state }: { row: MessageRow; state: NonNullable<MessageRow["sending"]> }) {
  if (state.state !== "failed") return <p class="aside">{state.state === "queued" ? strings.chat.queued : strings.chat.sending}</p>;
  const [what, todo] = state.failure ? words(state.failure) : ["", ""];
  return (
    <div class="failure" role="alert" data-code={state.failure?.code ?? ""}>
      <p><Icon name="alert" size={16} /> <strong>{strings.chat.notSent}</strong> {what} {todo}</p>
      <button type="button" class="button small" disabled={sending.value} onClick={() => void retry(row.message.id, row.message.text)}>
        {strings.chat.retry}
      </button>
      <button type="button" class="button small quiet" onClick={() => discard(row.message.id)}>{strings.chat.discard}</button>
    </div>
  );
}

/** Show what a message has besides texts; calls of tools have their own rows. */
function Attachments({ parts }: { parts: readonly Part[] }) {
  const shown = parts.filter((part) => part.raw !== undefined || part.url || (part.data !== undefined && !isTool(part)));
  if (!shown.length) return null;
  return <div class="attachments">{shown.map((part, index) => <Attachment key={index} part={part} />)}</div>;
}

function isTool(part: Part): boolean {
  return Object.keys(part.metadata ?? {}).some((name) => name.endsWith("_type"));
}

function Attachment({ part }: { part: Part }) {
  const name = part.filename || part.mediaType || strings.chat.file;
  if (part.data !== undefined)
    return (
      <details class="data">
        <summary>{strings.chat.data}</summary>
        <pre tabIndex={0}>{pretty(part.data)}</pre>
      </details>
    );
  if (part.raw === undefined)
    return (
      <a class="chip" href={safeLink(part.url ?? "") ?? "#"} target="_blank" rel="noopener noreferrer nofollow">
        <Icon name="link" size={16} /> <span dir="auto">{part.filename || part.url}</span>
      </a>
    );
  const source = `data:${part.mediaType || "application/octet-stream"};base64,${part.raw}`;
  if (part.mediaType?.startsWith("image/") && !part.mediaType.includes("svg")) return <img class="picture" src={source} alt={name} />;
  return (
    <a class="chip" href={source} download={name} aria-label={strings.chat.download(name)}>
      <Icon name="file" size={16} /> <span dir="auto">{name}</span> <small>{bytes(Math.floor(part.raw.length * 0.75))}</small>
    </a>
  );
}

/** Return what a screen reader should hear of a new message. */
export function spoken(message: Message): string {
  return strings.chat.saysAgent(message.text.slice(0, 500));
}
