/** One message: its text, its files, when it came, and what can be done with it. */

import { computed } from "@preact/signals";
import type { Message, Part, Row } from "../model/view";
import { address, chat, mayWrite, view } from "../state";
import { strings } from "../strings";
import { discard, reply, retry, reveal, rewind, sending } from "./acts";
import { copy } from "./copy";
import { safeLink } from "./blocks";
import { bytes, fullTime, pretty, time } from "./format";
import { Button, Icon, IconButton, type IconName } from "./icons";
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
      {message.role === "agent" && <Markdown text={message.text} live={live} />}
      {message.role === "user" && message.text && <p class="bubble" dir="auto">{message.text}</p>}
      <Attachments parts={message.parts} />
      {interrupted && <p class="aside">{strings.chat.interrupted}</p>}
      {row.sending ? <Sending row={row} state={row.sending} /> : !live && <Actions row={row} />}
    </article>
  );
}

// What the buttons of all messages depend on: they are drawn anew only when one of these changes.
const openId = computed(() => view.value?.id ?? "");
const newest = computed(() => view.value?.tasks.at(-1)?.id ?? "");
const rewinding = computed(() => view.value?.rewinding ?? true);

function Actions({ row: { message, canRewind } }: { row: MessageRow }) {
  const { id, taskId, invocationId, at } = message;
  const link = address(chat(openId.value, { message: id }));
  const older = message.role === "agent" && taskId !== "" && taskId !== newest.value;
  return (
    <footer class="actions" role="group" aria-label={strings.chat.messageActions}>
      {at && <time dateTime={at} title={fullTime(at)}>{time(at)}</time>}
      <Act icon="copy" label={strings.chat.copy} act={() => void copy(message.text)} />
      {id && openId.value && <Act icon="link" label={strings.chat.copyLink} act={() => void copy(link)} />}
      {id && taskId && <Act icon="events" label={strings.chat.showEvents} act={() => reveal("events", id)} />}
      {older && mayWrite.value && <Act icon="reply" label={strings.chat.reply} act={() => reply(taskId)} />}
      {canRewind && mayWrite.value && (
        <Act icon="rewind" label={strings.chat.rewind} disabled={rewinding.value} act={() => void rewind(invocationId)} />
      )}
    </footer>
  );
}

function Act({ icon, label, act, disabled = false }: { icon: IconName; label: string; act: () => void; disabled?: boolean }) {
  return <IconButton icon={icon} label={label} size={15} disabled={disabled} onClick={act} />;
}

function Sending({ row: { message }, state }: { row: MessageRow; state: NonNullable<MessageRow["sending"]> }) {
  const back = <Button kind="small quiet" label={strings.chat.discard} act={() => discard(message.id)} />;
  if (state.state === "sending") return <p class="aside">{strings.chat.sending}</p>;
  if (state.state === "queued") return <p class="aside">{strings.chat.queued} {back}</p>;
  const [what, todo] = state.failure ? words(state.failure) : ["", ""];
  return (
    <div class="failure" role="alert" data-code={state.failure?.code ?? ""}>
      <p><Icon name="alert" size={16} /> <strong>{strings.chat.notSent}</strong> {what} {todo}</p>
      <Button kind="small" label={strings.chat.retry} disabled={sending.value} act={() => void retry(message.id, message.text)} />
      {back}
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
    return <details class="data"><summary>{strings.chat.data}</summary><pre tabIndex={0}>{pretty(part.data)}</pre></details>;
  if (part.raw === undefined) {
    const safe = safeLink(part.url ?? "");
    return (
      <a class="chip" {...(safe && { href: safe })} target="_blank" rel="noopener noreferrer nofollow">
        <Icon name="link" size={16} /> <span dir="auto">{part.filename || part.url}</span>
      </a>
    );
  }
  const source = `data:${part.mediaType || "application/octet-stream"};base64,${part.raw}`;
  if (/^image\/(?!svg)/.test(part.mediaType ?? "")) return <img class="picture" src={source} alt={name} />;
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
