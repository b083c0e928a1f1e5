/** The rows of a conversation: messages, calls of tools, artifacts, how a task ended, and what it asks. */

import { computed } from "@preact/signals";
import type { ComponentChildren, FunctionComponent } from "preact";
import { useEffect, useId, useMemo, useState } from "preact/hooks";
import { sizeOf } from "../model/artifacts";
import { askedIn } from "../model/asked";
import { toolOf } from "../model/events";
import { type Picture, picturesOf } from "../model/preview";
import type { Message, Part, Row, TaskInfo, ToolCall } from "../model/view";
import { address, api, chat, mayOperate, mayWrite, view } from "../state";
import { strings } from "../strings";
import { copy, discard, focusBox, reply, retry, reveal, rewind, say, sendAgain, sending } from "./acts";
import { useCard } from "./card";
import { Act, Button, ErrorCode, Icon, IconButton, Moment } from "./controls";
import { aboutOf, bytes, firstLine, nameOf, pretty } from "./format";
import { Link, Markdown } from "./markdown";
import { Shown } from "./picture";
import { reasonOf, words } from "./toasts";

type Of<Kind extends Row["kind"]> = Extract<Row, { kind: Kind }>;

/** The newest task, on which the buttons of all rows depend: they are drawn anew only when it changes. */
const newest = computed(() => view.value?.tasks.at(-1)?.id ?? "");

const VIEWS = { message: MessageView, tools: Tools, artifact: ArtifactCard, end: End, question: Question };

/** Show a row, drawn anew only if it changed. */
export function RowView({ row }: { row: Row }) {
  const View = VIEWS[row.kind] as FunctionComponent<Row>;
  return useMemo(() => <View {...row} />, [row]);
}

/** A message of the user as it was typed, one of the agent as markdown. */
function MessageView({ message, live, interrupted, sending: way, canRewind }: Of<"message">) {
  const { id, role, text, taskId, parts } = message;
  // Calls of tools have rows of their own.
  const shown = parts.filter((part) => part.raw !== undefined || part.url || "unknown" in part || (part.data !== undefined && !toolOf(part)));
  return (
    <article class={`message ${role}`} data-message-id={id} data-role={role} data-task-id={taskId}
      aria-busy={live || undefined} aria-label={role === "user" ? strings.chat.you : strings.chat.agent}>
      {role === "agent" ? <Markdown text={text} live={live} /> : text && <p class="bubble" dir="auto">{text}</p>}
      {shown.length > 0 && <div class="attachments">{shown.map((part, index) => <Attachment key={index} {...part} />)}</div>}
      {interrupted && <p class="aside">{strings.chat.interrupted}</p>}
      {way ? <Sending {...message} {...way} /> : !live && <Actions {...message} canRewind={canRewind} />}
    </article>
  );
}

function Actions({ id, role, taskId, invocationId, at, text, canRewind }: Message & { canRewind: boolean }) {
  const older = role === "agent" && taskId !== "" && taskId !== newest.value;
  const cuts = canRewind && mayWrite.value;
  const link = () => address(chat(view.peek()!.id, { message: id }));
  return (
    <footer class="actions" role="group" aria-label={strings.chat.messageActions}>
      {at && <Moment at={at} />}
      <IconButton icon="copy" size={15} label={strings.chat.copy} onClick={() => void copy(text)} />
      {id && <IconButton icon="link" size={15} label={strings.chat.copyLink} onClick={() => void copy(link())} />}
      {id && taskId && <IconButton icon="events" size={15} label={strings.chat.showEvents} onClick={() => reveal("events", id)} />}
      {older && mayWrite.value && <IconButton icon="reply" size={15} label={strings.chat.reply} onClick={() => reply(taskId)} />}
      {cuts && <IconButton icon="rewind" size={15} label={strings.chat.rewind} onClick={() => void rewind(invocationId)} />}
    </footer>
  );
}

function Sending({ id, text, state, failure }: Message & NonNullable<Of<"message">["sending"]>) {
  const back = <Button kind="small quiet" label={strings.chat.discard} act={() => discard(id)} />;
  if (state === "sending") return <p class="aside actions">{strings.chat.sending}</p>;
  if (state === "queued") return <p class="aside">{strings.chat.queued} {back}</p>;
  return (
    <div class="failure" role="alert" data-code={failure?.code}>
      <p><Icon name="alert" size={16} /> <strong>{strings.chat.notSent}</strong> {words({ code: "", ...failure }).join(" ")}</p>
      <Button kind="small" label={strings.chat.retry} disabled={sending.value} act={() => void retry(id, text)} />
      {back}
    </div>
  );
}

/** A part that is no text: data, an image, a file, a link, or one of an unknown form. */
function Attachment(part: Part) {
  const pictures = useMemo(() => picturesOf([part], part.filename ?? ""), [part.raw, part.mediaType]);
  const { data, raw, url = "", filename, mediaType = "", unknown } = part;
  if ("unknown" in part) {
    const json = JSON.stringify(unknown, null, 2);
    return <details class="tools" data-unknown><summary>{strings.chat.unknownPart}</summary><pre class="value" tabIndex={0} dir="ltr">{json}</pre></details>;
  }
  if (data !== undefined) {
    const [asked] = askedIn(data);
    const title = (asked && (asked.name || firstLine(asked.words))) || strings.chat.data;
    return <details class="tools"><summary>{title}</summary><pre class="value" tabIndex={0}>{pretty(data)}</pre></details>;
  }
  const name = filename || url || mediaType || strings.chat.file;
  if (raw === undefined) return <Link class="chip" href={url}><Icon name="link" size={16} /> <span dir="auto">{name}</span></Link>;
  const [picture] = pictures;
  if (picture) return <Shown picture={picture} otherwise={<FileLink part={part} name={name} />} />;
  return <FileLink part={part} name={name} />;
}

/** A file as a link that downloads it. */
function FileLink({ part, name }: { part: Part; name: string }) {
  const source = `data:${part.mediaType || "application/octet-stream"};base64,${part.raw}`;
  return (
    <a class="chip" href={source} download={name} aria-label={strings.chat.download(name)}>
      <Icon name="file" size={16} /> <span dir="auto">{name}</span> <small>{bytes(sizeOf(part))}</small>
    </a>
  );
}

function Tools({ calls }: Of<"tools">) {
  const list = calls.map((call) => <Tool key={call.id} call={call} />);
  if (calls.length <= 2) return <div class="tools">{list}</div>;
  return (
    <details class="tools group">
      <Summary>
        {strings.chat.toolCalls(calls.length)}
        <code class="names" dir="ltr">{[...new Set(calls.map((call) => call.name))].join(", ")}</code>
        {calls.some((call) => call.state === "running") && <span class="state-dot" data-state="working" />}
      </Summary>
      {list}
    </details>
  );
}

function Tool({ call }: { call: ToolCall }) {
  const values = [[strings.chat.toolArguments, call.args], [strings.chat.toolResponse, call.response]] as const;
  return (
    <details class="tool" data-call-id={call.id} data-state={call.state}>
      <Summary>
        <code dir="ltr">{call.name}</code>
        <small class="tool-state">{strings.chat.toolStates[call.state]}</small>
      </Summary>
      {values.map(([title, value]) => value !== undefined && (
        <section key={title} class="value">
          <p class="aside">{title}</p>
          <pre tabIndex={0} dir="ltr">{pretty(value)}</pre>
        </section>
      ))}
    </details>
  );
}

function Summary({ children }: { children: ComponentChildren }) {
  return <summary><Icon name="chevron" size={16} /><Icon name="tool" size={16} />{children}</summary>;
}

/** More images of an artifact are in the panel. */
const MOST_PICTURES = 4;
const NONE: readonly Picture[] = [];

/** An artifact: its images, and a button that leads to all of it. */
function ArtifactCard({ artifact }: Of<"artifact">) {
  const { taskId, id, complete, versions } = artifact;
  const name = nameOf(artifact);
  const parts = versions.at(-1)?.parts;
  const pictures = useMemo(() => (complete && parts ? picturesOf(parts, name).slice(0, MOST_PICTURES) : NONE), [parts, complete]);
  return (
    <div class="made">
      {pictures.map((picture, index) => <Shown key={index} picture={picture} />)}
      <button type="button" class="artifact" data-artifact-id={id} data-task-id={taskId} onClick={() => reveal("artifacts", id)}>
        <Icon name="artifacts" size={20} />
        <span class="what">
          <strong dir="auto">{name}</strong>
          <small>{aboutOf(artifact)}</small>
        </span>
        <Icon name="chevron" size={16} />
      </button>
    </div>
  );
}

function End({ task, asked }: Of<"end">) {
  const { id, state } = task;
  const [what, todo] = reasonOf(task);
  const cause = useCause(task);
  const again = mayWrite.value && state === "failed" && newest.value === id && asked;
  return (
    <div class="end" data-state={state} data-task-id={id} role={state === "failed" ? "alert" : undefined} data-code={state}>
      <Icon name={state === "canceled" ? "canceled" : "alert"} size={16} />
      <p>
        <strong>{strings.states[state]}</strong>
        {what && <span dir="auto">{what}</span>}
        <ErrorCode code={task.code} />
        {cause && <code class="cause" dir="ltr">{cause}</code>}
        {(again || state !== "failed") && <small>{todo}</small>}
      </p>
      {again && <Act label={strings.chat.again} off={sending.value} act={() => sendAgain(again)} />}
      <Act label={strings.chat.showTask} act={() => reveal("tasks", id)} />
    </div>
  );
}

/** Return the exception, file and line that failed a task: operators are told them. Empty without, and until they are known. */
function useCause({ id, state }: TaskInfo): string {
  const [cause, setCause] = useState("");
  const asks = mayOperate.value && state === "failed";
  useEffect(() => {
    if (asks) void api.ops.task(id).then((task) => setCause(task.cause ?? ""), () => undefined);
  }, [id, asks]);
  return cause;
}

/** Return what a task waits for. */
export function asks({ state }: TaskInfo): string {
  return state === "auth-required" ? strings.chat.asksSignIn : strings.chat.asks;
}

/** What a task asks for. The message box takes the answer; a credential has a field of its own. */
function Question({ task, message }: Of<"question">) {
  const signIn = task.state === "auth-required";
  const title = asks(task);
  return (
    <section class="question" data-task-id={task.id} data-state={task.state} aria-label={title}>
      <header>
        <Icon name={signIn ? "key" : "question"} size={18} />
        <h2>{title}</h2>
      </header>
      {message && <Markdown text={message.text} />}
      {message?.parts.map((part, index) => part.text === undefined && toolOf(part)?.called !== false && <Asked key={index} {...part} />)}
      {signIn && mayWrite.value && <Credential />}
    </section>
  );
}

/** A part of a question: what its data asks for, then all of it; a file or a link as in a message. */
function Asked(part: Part) {
  if (part.data === undefined) return <Attachment {...part} />;
  return (
    <>
      {askedIn(part.data).map(({ name, words, args }, index) => (
        <div key={index} class="asked">
          {words && <p dir="auto">{words}</p>}
          {name && <code dir="ltr">{name}</code>}
          {args !== undefined && <pre tabIndex={0} dir="ltr">{pretty(args)}</pre>}
        </div>
      ))}
      <details class="tools" open><summary>{strings.chat.data}</summary><pre class="value" tabIndex={0} dir="ltr">{pretty(part.data)}</pre></details>
    </>
  );
}

/** The field of a credential. That it was not sent is said where it is shown as a message. */
function Credential() {
  const schemes = useCard(view.value?.agent ?? "").found?.security ?? [];
  const id = useId();
  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    const form = event.currentTarget as HTMLFormElement;
    const secret = String(new FormData(form).get("secret"));
    form.reset();
    void say({ text: strings.chat.credentialSent, files: [], secret }).then((failure) => failure || focusBox());
  };
  return (
    <form class="credential" onSubmit={submit}>
      {schemes.length > 0 && <ul class="aside">{schemes.map((one) => <li key={one} dir="auto">{one}</li>)}</ul>}
      <div class="answer">
        <input class="field" type="password" name="secret" required autocomplete="off" aria-describedby={id}
          aria-label={strings.chat.credential} placeholder={strings.chat.credential} />
        <button type="submit" class="button primary" disabled={sending.value}>{strings.chat.credentialSend}</button>
      </div>
      <p class="aside" id={id}>{strings.chat.credentialHint}</p>
    </form>
  );
}
