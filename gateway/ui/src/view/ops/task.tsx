/** One task of any owner: what it does now, why it failed, its record, its log, and what can be done. */

import type { ComponentChildren } from "preact";
import { useRef, useState } from "preact/hooks";
import { failureOf } from "../../model/failures";
import { type OpsState, opsState, told } from "../../model/operations";
import type { OpsEvent, OpsTask } from "../../model/ops";
import type { Failure } from "../../model/view";
import { address, api, chat, config, mayWrite } from "../../state";
import { strings } from "../../strings";
import { Notice } from "../empty";
import { duration, firstLine, fullTime, time } from "../format";
import { Icon, type IconName } from "../icons";
import { words as wordsOf } from "../toasts";
import { Log } from "./log";
import { Inside, StateMark, To } from "./places";
import { Shown, usePolled } from "./polled";
import { Part } from "./table";

const words = strings.ops;
const AT_REST: ReadonlySet<OpsState> = new Set(["paused", "completed", "failed", "cancelled"]);

/** Show the task that the address names. */
export function TaskPage({ id }: { id: string }) {
  const [deleted, setDeleted] = useState(false);
  const found = usePolled(id, () => api.ops.task(id));
  if (deleted)
    return (
      <Notice title={words.deletedTitle} text={words.deleted}>
        <To place={{ view: "tasks" }} class="button">{words.toTasks}</To>
      </Notice>
    );
  return (
    <Shown of={found} wait={words.loading.task}>
      {(task) => (
        <>
          <header class="ops-task">
            <h2><span class="sr-only">{words.task} </span><code dir="ltr">{task.taskId}</code></h2>
            <StateMark state={opsState(task)} />
          </header>
          {asked(task.first) && <blockquote class="ops-asked" dir="auto">{asked(task.first)}</blockquote>}
          <p class="ops-doing" data-doing={task.lapsed ? "lapsed" : opsState(task)}>{doing(task)} {task.superseded && words.superseded}</p>
          {task.error && <p class="ops-why" dir="auto"><Icon name="alert" size={16} /> {task.error}</p>}
          <Acts task={task} changed={found.again} deleted={() => setDeleted(true)} />
          <Record task={task} />
          <Log task={task} />
        </>
      )}
    </Shown>
  );
}

/** Return what the user asked for: the message that began the task. */
function asked(first: OpsEvent | null): string {
  return first?.kind === "created" ? firstLine(told(first).text, 300) : "";
}

function doing(task: OpsTask & { lapsed: boolean }): string {
  const said = words.doing;
  const state = opsState(task);
  const since = time(task.statusAt);
  if (task.document) return said.document;
  if (state === "pending") return said.pending(time(task.queuedAt ?? task.statusAt));
  if (state === "paused") return said.paused(since);
  if (state !== "working") return said[state](lasted(task));
  if (task.executor && task.lapsed) return said.lapsed(task.executor, duration(Date.now() - Date.parse(task.leaseExpiresAt ?? "")));
  if (task.executor) return said.working(task.executor, since);
  return task.queuedAt ? said.queued(time(task.queuedAt)) : said.working_alone;
}

function lasted(task: OpsTask): string {
  return duration(Date.parse(task.completedAt ?? "") - Date.parse(task.createdAt));
}

function Record({ task }: { task: OpsTask }) {
  const own = task.owner === config.value?.caller?.user;
  const facts: readonly (readonly [string, ComponentChildren])[] = [
    [words.agent, task.agent || words.noAgent],
    [words.owner, task.owner],
    [words.session, own ? <Inside href={address(chat(task.contextId, { task: task.taskId }))}>{words.openSession}</Inside> : <><code dir="ltr">{task.contextId}</code> <small>{words.foreignSession(task.owner)}</small></>],
    [words.created, <Moment at={task.createdAt} />],
    [words.changed, <Moment at={task.statusAt} />],
    [words.ended, task.completedAt && <Moment at={task.completedAt} />],
    [words.took, task.completedAt && lasted(task)],
    [words.executor, task.executor && <><code dir="ltr">{task.executor}</code> <To place={{ view: "tasks", executor: task.executor }}>{words.showOthers}</To></>],
    [words.lease, task.leaseExpiresAt && <Moment at={task.leaseExpiresAt} />],
    [words.attempt, words.attemptOf(task.attempt, task.maxAttempts)],
    [words.fence, task.fence],
    [words.generation, task.generation.toLocaleString()],
    [words.copied, AT_REST.has(opsState(task)) && (task.copied ? words.yes : <strong class="ops-bad">{words.notCopied}</strong>)],
  ];
  return (
    <Part title={words.record}>
      <dl class="ops-record">
        {facts.map(([name, value]) => value !== undefined && value !== "" && value !== false && (
          <div key={name}>
            <dt>{name}</dt>
            <dd dir="auto">{value}</dd>
          </div>
        ))}
      </dl>
    </Part>
  );
}

function Moment({ at }: { at: string }) {
  return <time dateTime={at} title={fullTime(at)}>{new Date(at).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "medium" })}</time>;
}

function Acts({ task, changed, deleted }: { task: OpsTask; changed: () => void; deleted: () => void }) {
  if (!mayWrite.value) return <p class="aside">{words.readOnly}</p>;
  return (
    <div class="ops-acts">
      {!task.completedAt && !task.document && <Ask icon="stop" label={words.cancel} ask={words.cancelAsk} yes={words.cancelYes} act={() => api.ops.cancel(task.taskId)} done={changed} />}
      <Ask icon="trash" label={words.delete} ask={words.deleteAsk} yes={words.deleteYes} act={() => api.ops.delete(task.taskId)} done={deleted} />
    </div>
  );
}

/** A button that asks in its place before it acts, and shows there why it could not. */
function Ask({ icon, label, ask, yes, act, done }: { icon: IconName; label: string; ask: string; yes: string; act: () => Promise<unknown>; done: () => void }) {
  const [busy, setBusy] = useState(false);
  const [failure, setFailure] = useState<Failure | null>(null);
  const box = useRef<HTMLDialogElement>(null);
  const opener = useRef<HTMLButtonElement>(null);
  const close = () => {
    box.current?.close();
    opener.current?.focus();
  };
  const run = async () => {
    setBusy(true);
    setFailure(null);
    await act().then(done, (error: unknown) => setFailure(failureOf(error)));
    setBusy(false);
    close();
  };
  const leave = (event: KeyboardEvent) => {
    if (event.key !== "Escape") return;
    event.stopPropagation();
    close();
  };
  return (
    <>
      <button ref={opener} type="button" class="button" onClick={() => box.current?.show()}><Icon name={icon} size={16} /> {label}</button>
      <dialog ref={box} class="ops-ask" aria-label={label} onKeyDown={leave}>
        <p>{busy ? words.busy : ask}</p>
        <button type="button" class="button" autofocus disabled={busy} onClick={close}>{words.no}</button>
        <button type="button" class="button ops-danger" disabled={busy} onClick={() => void run()}>{yes}</button>
      </dialog>
      {failure && <p class="failure" role="alert" data-code={failure.code}>{wordsOf(failure).join(" ")}</p>}
    </>
  );
}
