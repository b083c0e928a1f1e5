/** The rows of a conversation that are no messages: calls of tools, artifacts, how a task ended, and what it asks. */

import type { ComponentChildren } from "preact";
import { useId, useState } from "preact/hooks";
import type { Artifact, Failure, Row, TaskInfo, ToolCall } from "../model/view";
import { mayWrite, view } from "../state";
import { strings } from "../strings";
import { focusBox, reveal, say, sendAgain, sending } from "./acts";
import { useCard } from "./card";
import { Act } from "./controls";
import { aboutOf, nameOf, pretty } from "./format";
import { Icon } from "./icons";
import { Markdown } from "./markdown";
import { MessageView, newest } from "./message";
import { reasonOf, words } from "./toasts";

/** Show any row. */
export function RowView(row: Row) {
  if (row.kind === "message") return <MessageView row={row} />;
  if (row.kind === "tools") return <Tools calls={row.calls} />;
  if (row.kind === "artifact") return <ArtifactCard artifact={row.artifact} />;
  return row.kind === "end" ? <End {...row} /> : <Question {...row} />;
}

function Tools({ calls }: { calls: readonly ToolCall[] }) {
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

function ArtifactCard({ artifact }: { artifact: Artifact }) {
  return (
    <button type="button" class="artifact" data-artifact-id={artifact.id} data-task-id={artifact.taskId}
      onClick={() => reveal("artifacts", artifact.id)}>
      <Icon name="artifacts" size={20} />
      <span class="what">
        <strong dir="auto">{nameOf(artifact)}</strong>
        <small>{aboutOf(artifact)}</small>
      </span>
      <Icon name="chevron" size={16} />
    </button>
  );
}

function End({ task, asked }: Extract<Row, { kind: "end" }>) {
  const { id, state, error } = task;
  const code = error in strings.failures ? error : state;
  const [what, todo] = reasonOf(task);
  const again = mayWrite.value && state === "failed" && newest.value === id && asked;
  return (
    <div class="end" data-state={state} data-task-id={id} role={state === "failed" ? "alert" : undefined} data-code={code}>
      <Icon name={state === "canceled" ? "canceled" : "alert"} size={16} />
      <p>
        <strong>{strings.states[state]}</strong>
        {what && <span dir="auto">{what}</span>}
        {(again || state !== "failed") && <small>{todo}</small>}
      </p>
      {again && <Act label={strings.chat.again} off={sending.value} act={() => sendAgain(again)} />}
      <Act label={strings.chat.showTask} act={() => reveal("tasks", id)} />
    </div>
  );
}

/** Return what a task waits for. */
export function asks({ state }: TaskInfo): string {
  return state === "auth-required" ? strings.chat.asksSignIn : strings.chat.asks;
}

/** What a task asks for. The message box takes the answer; a credential has a field of its own. */
function Question({ task, message }: Extract<Row, { kind: "question" }>) {
  const signIn = task.state === "auth-required";
  const title = asks(task);
  return (
    <section class="question" data-task-id={task.id} data-state={task.state} aria-label={title}>
      <header>
        <Icon name={signIn ? "key" : "question"} size={18} />
        <h2>{title}</h2>
      </header>
      {message && <Markdown text={message.text} />}
      {signIn && mayWrite.value && <Credential />}
    </section>
  );
}

function Credential() {
  const [failure, setFailure] = useState<Failure | null>(null);
  const schemes = useCard(view.value?.agent ?? "").found?.security ?? [];
  const id = useId();
  const submit = async (event: SubmitEvent) => {
    event.preventDefault();
    const form = event.currentTarget as HTMLFormElement;
    setFailure(null);
    const secret = String(new FormData(form).get("secret"));
    const failed = await say({ text: strings.chat.credentialSent, files: [], secret });
    form.reset();
    setFailure(failed);
    if (!failed) focusBox();
  };
  return (
    <form class="credential" onSubmit={(event) => void submit(event)}>
      {schemes.length > 0 && <ul class="aside">{schemes.map((one) => <li key={one} dir="auto">{one}</li>)}</ul>}
      <div class="answer">
        <input class="field" type="password" name="secret" required autocomplete="off" aria-describedby={id}
          aria-label={strings.chat.credential} placeholder={strings.chat.credential} />
        <button type="submit" class="button primary" disabled={sending.value}>{strings.chat.credentialSend}</button>
      </div>
      {failure && <p class="failure" role="alert" data-code={failure.code}>{words(failure).join(" ")}</p>}
      <p class="aside" id={id}>{strings.chat.credentialHint}</p>
    </form>
  );
}
