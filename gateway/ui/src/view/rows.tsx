/** The rows of a conversation that are no messages: calls of tools, artifacts, and how a task ended. */

import type { Artifact, Row, TaskInfo, ToolCall } from "../model/view";
import { strings } from "../strings";
import { reveal } from "./acts";
import { bytes, pretty } from "./format";
import { Icon } from "./icons";
import { MessageView } from "./message";
import { Question } from "./question";
import { words } from "./toasts";

/** Show any row. */
export function RowView(row: Row) {
  switch (row.kind) {
    case "message":
      return <MessageView row={row} />;
    case "tools":
      return <Tools calls={row.calls} />;
    case "artifact":
      return <ArtifactCard artifact={row.artifact} />;
    case "end":
      return <End task={row.task} />;
    case "question":
      return <Question task={row.task} message={row.message} />;
  }
}

function Tools({ calls }: { calls: readonly ToolCall[] }) {
  const list = calls.map((call) => <Tool key={call.id} call={call} />);
  if (calls.length <= 2) return <div class="tools">{list}</div>;
  const running = calls.some((call) => call.state === "running");
  return (
    <details class="tools group">
      <summary>
        <Icon name="chevron" size={16} />
        <Icon name="tool" size={16} />
        {strings.chat.toolCalls(calls.length)}
        <span class="names" dir="ltr">{[...new Set(calls.map((call) => call.name))].join(", ")}</span>
        {running && <span class="state-dot" data-state="working" />}
      </summary>
      {list}
    </details>
  );
}

function Tool({ call }: { call: ToolCall }) {
  return (
    <details class="tool" data-call-id={call.id} data-state={call.state}>
      <summary>
        <Icon name="chevron" size={16} />
        <Icon name="tool" size={16} />
        <code dir="ltr">{call.name}</code>
        <span class="tool-state">{strings.chat.toolStates[call.state]}</span>
      </summary>
      <Value title={strings.chat.toolArguments} value={call.args} />
      {call.response !== undefined && <Value title={strings.chat.toolResponse} value={call.response} />}
    </details>
  );
}

function Value({ title, value }: { title: string; value: unknown }) {
  return (
    <section class="value">
      <p>{title}</p>
      <pre tabIndex={0} dir="ltr">{pretty(value)}</pre>
    </section>
  );
}

function ArtifactCard({ artifact }: { artifact: Artifact }) {
  const current = artifact.versions.at(-1);
  const name = artifact.name || current?.parts.find((part) => part.filename)?.filename || artifact.id;
  const about = [
    artifact.versions.length > 1 ? strings.chat.versions(artifact.versions.length) : "",
    bytes(current?.size ?? 0),
    current?.complete === false ? strings.chat.artifactGrows : "",
  ];
  return (
    <button
      type="button"
      class="artifact"
      data-artifact-id={artifact.id}
      data-task-id={artifact.taskId}
      title={strings.chat.openArtifact(name)}
      onClick={() => reveal("artifacts", artifact.id)}
    >
      <Icon name="artifacts" size={20} />
      <span class="what">
        <strong dir="auto">{name}</strong>
        <small>{about.filter(Boolean).join(" · ")}</small>
      </span>
      <Icon name="chevron" size={16} />
    </button>
  );
}

function End({ task }: { task: TaskInfo }) {
  const code = task.error in strings.failures ? task.error : task.state;
  const [what, todo] = task.error ? words({ code: task.error, message: task.error, suggestion: "" }) : ["", ""];
  return (
    <div class="end" data-state={task.state} data-task-id={task.id} role={task.state === "failed" ? "alert" : undefined} data-code={code}>
      <Icon name={task.state === "canceled" ? "canceled" : "alert"} size={16} />
      <p>
        <strong>{strings.states[task.state]}</strong>
        {what && <span dir="auto">{what}</span>}
        <small>{todo || strings.endings[task.state]}</small>
      </p>
      <button type="button" class="link" onClick={() => reveal("tasks", task.id)}>{strings.chat.showTask}</button>
    </div>
  );
}
