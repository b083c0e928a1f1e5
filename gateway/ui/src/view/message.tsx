/** One message: its text, its files, when it came, and what can be done with it. */

import { computed } from "@preact/signals";
import { sizeOf } from "../model/artifacts";
import { toolOf } from "../model/events";
import type { Message, Part, Row } from "../model/view";
import { address, chat, mayWrite, view } from "../state";
import { strings } from "../strings";
import { discard, reply, retry, reveal, rewind, sending } from "./acts";
import { Moment } from "./controls";
import { copy } from "./copy";
import { bytes, pretty } from "./format";
import { Button, Icon, IconButton, type IconName } from "./icons";
import { Link, Markdown } from "./markdown";
import { words } from "./toasts";

type MessageRow = Extract<Row, { kind: "message" }>;

/** Show a message of the user as it was typed, one of the agent as markdown. */
export function MessageView({ row }: { row: MessageRow }) {
  const { message: { id, role, text, taskId, parts }, live, interrupted } = row;
  // Calls of tools have rows of their own.
  const shown = parts.filter((part) => part.raw !== undefined || part.url || (part.data !== undefined && !toolOf(part)));
  return (
    <article class={`message ${role}`} data-message-id={id} data-role={role} data-task-id={taskId}
      aria-busy={live || undefined} aria-label={role === "user" ? strings.chat.you : strings.chat.agent}>
      {role === "agent" ? <Markdown text={text} live={live} /> : text && <p class="bubble" dir="auto">{text}</p>}
      {shown.length > 0 && <div class="attachments">{shown.map((part, index) => <Attachment key={index} part={part} />)}</div>}
      {interrupted && <p class="aside">{strings.chat.interrupted}</p>}
      {row.sending ? <Sending {...row.message} {...row.sending} /> : !live && <Actions row={row} />}
    </article>
  );
}

/** The newest task, on which the buttons of all rows depend: they are drawn anew only when it changes. */
export const newest = computed(() => view.value?.tasks.at(-1)?.id ?? "");

function Actions({ row: { message, canRewind } }: { row: MessageRow }) {
  const { id, role, taskId, invocationId, at, text } = message;
  const older = role === "agent" && taskId !== "" && taskId !== newest.value;
  const link = () => address(chat(view.peek()!.id, { message: id }));
  return (
    <footer class="actions" role="group" aria-label={strings.chat.messageActions}>
      {at && <Moment at={at} />}
      <Act icon="copy" label={strings.chat.copy} act={() => void copy(text)} />
      {id && <Act icon="link" label={strings.chat.copyLink} act={() => void copy(link())} />}
      {id && taskId && <Act icon="events" label={strings.chat.showEvents} act={() => reveal("events", id)} />}
      {older && mayWrite.value && <Act icon="reply" label={strings.chat.reply} act={() => reply(taskId)} />}
      {canRewind && mayWrite.value && <Act icon="rewind" label={strings.chat.rewind} act={() => void rewind(invocationId)} />}
    </footer>
  );
}

function Act({ act, ...rest }: { icon: IconName; label: string; act: () => void }) {
  return <IconButton size={15} onClick={act} {...rest} />;
}

function Sending({ id, text, state, failure }: Message & NonNullable<MessageRow["sending"]>) {
  const back = <Button kind="small quiet" label={strings.chat.discard} act={() => discard(id)} />;
  if (state !== "failed") return <p class="aside">{strings.chat[state]} {state === "queued" && back}</p>;
  const { code = "" } = failure ?? {};
  return (
    <div class="failure" role="alert" data-code={code}>
      <p><Icon name="alert" size={16} /> <strong>{strings.chat.notSent}</strong> {words({ code, ...failure }).join(" ")}</p>
      <Button kind="small" label={strings.chat.retry} disabled={sending.value} act={() => void retry(id, text)} />
      {back}
    </div>
  );
}

function Attachment({ part }: { part: Part }) {
  const { data, raw, url = "", filename, mediaType = "" } = part;
  if (data !== undefined)
    return <details class="tools"><summary>{strings.chat.data}</summary><pre class="value" tabIndex={0}>{pretty(data)}</pre></details>;
  const name = filename || url || mediaType || strings.chat.file;
  const named = (icon: IconName) => <><Icon name={icon} size={16} /> <span dir="auto">{name}</span></>;
  if (raw === undefined) return <Link class="chip" href={url}>{named("link")}</Link>;
  const source = `data:${mediaType || "application/octet-stream"};base64,${raw}`;
  if (/^image\/(?!svg)/.test(mediaType)) return <img class="picture" src={source} alt={name} />;
  return (
    <a class="chip" href={source} download={name} aria-label={strings.chat.download(name)}>
      {named("file")} <small>{bytes(sizeOf(part))}</small>
    </a>
  );
}
