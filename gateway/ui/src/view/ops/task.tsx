/** One task of any owner: what it does now, why it failed, its record, its log, and what can be done. */

import { useRef, useState } from "preact/hooks";
import { classify, wordsOf } from "../../model/events";
import { failureOf } from "../../model/failures";
import { opsState } from "../../model/operations";
import { address, api, chat, config, mayWrite } from "../../state";
import { strings } from "../../strings";
import { Act } from "../controls";
import { Notice } from "../empty";
import { duration, firstLine, time } from "../format";
import { Button, Icon, type IconName } from "../icons";
import { toastFailure } from "../toasts";
import { Log } from "./log";
import { Moment, StateMark, To } from "./places";
import { Polled } from "./polled";
import { Facts, Part } from "./table";

const words = strings.ops;
const long = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
type Task = Awaited<ReturnType<typeof api.ops.task>>;

/** Show the task that the address names. */
export function TaskPage({ id }: { id: string }) {
  const [deleted, setDeleted] = useState(false);
  if (deleted)
    return (
      <Notice title={words.deletedTitle} text={words.deleted}>
        <To place={{ view: "tasks" }} class="button">{words.toTasks}</To>
      </Notice>
    );
  return (
    <Polled load={() => api.ops.task(id)} wait={words.loading.task}>
      {(task, _, again) => (
        <>
          <header class="ops-task">
            <h2><span class="sr-only">{words.task} </span><code dir="ltr">{id}</code></h2>
            <StateMark state={opsState(task)} />
          </header>
          {asked(task) && <blockquote class="ops-asked" dir="auto">{asked(task)}</blockquote>}
          <p class="ops-doing" data-doing={task.lapsed ? "lapsed" : opsState(task)}>{doing(task)} {task.superseded && words.superseded}</p>
          {task.error && <p class="ops-why" dir="auto"><Icon name="alert" size={16} /> {task.error}</p>}
          {mayWrite.value ? (
            <div class="ops-acts">
              {!task.completedAt && !task.document && <Ask icon="stop" {...words.cancel} act={() => api.ops.cancel(id)} done={again} />}
              <Ask icon="trash" {...words.delete} act={() => api.ops.delete(id)} done={() => setDeleted(true)} />
            </div>
          ) : (
            <p class="aside">{words.readOnly}</p>
          )}
          <Record task={task} />
          <Log task={task} />
        </>
      )}
    </Polled>
  );
}

/** Return what the user asked for: the message that began the task. */
function asked({ first }: Task): string {
  const begun = first?.kind === "created" && classify(first.event);
  if (!begun || begun.kind !== "task") return "";
  return firstLine(wordsOf((begun.message ?? begun.history.at(-1))?.parts), 300);
}

function doing(task: Task): string {
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

function lasted({ createdAt, completedAt = "" }: Task): string {
  return duration(Date.parse(completedAt) - Date.parse(createdAt));
}

function Record({ task }: { task: Task }) {
  const { agent, owner, contextId, executor, completedAt, copied } = task;
  const open = chat(contextId, { task: task.taskId });
  const moment = (at?: string) => at && <Moment at={at}>{long.format(new Date(at))}</Moment>;
  const session =
    owner === config.value?.caller?.user ? (
      <To href={address(open)}>{words.openSession}</To>
    ) : (
      <><code dir="ltr">{contextId}</code> <small>{words.foreignSession(owner)}</small></>
    );
  return (
    <Part title={words.record}>
      <Facts
        kind="ops-record"
        rows={[
          [words.agent, agent || words.noAgent],
          [words.owner, owner],
          [words.session, session],
          [words.created, moment(task.createdAt)],
          [words.changed, moment(task.statusAt)],
          [words.ended, moment(completedAt)],
          [words.took, completedAt && lasted(task)],
          [words.executor, executor && (
            <><code dir="ltr">{executor}</code> <To place={{ view: "tasks", executor }}>{words.showOthers}</To></>
          )],
          [words.lease, moment(task.leaseExpiresAt)],
          [words.attempt, words.attemptOf(task.attempt, task.maxAttempts)],
          [words.fence, String(task.fence)],
          [words.generation, task.generation.toLocaleString()],
          [words.copied, (completedAt || task.paused) && (copied ? words.yes : <strong class="ops-bad">{words.notCopied}</strong>)],
        ]}
      />
    </Part>
  );
}

/** A button that asks before it acts. */
function Ask(props: { icon: IconName; label: string; ask: string; yes: string; act: () => Promise<void>; done: () => void }) {
  const { icon, label, ask, yes, act, done } = props;
  const [busy, setBusy] = useState(false);
  const box = useRef<HTMLDialogElement>(null);
  const run = async () => {
    setBusy(true);
    await act().then(done, (error: unknown) => toastFailure(failureOf(error)));
    setBusy(false);
    box.current?.close();
  };
  return (
    <>
      <Act icon={icon} label={label} act={() => box.current?.showModal()} />
      <dialog ref={box} class="ops-ask" aria-label={label}>
        <p>{busy ? words.busy : ask}</p>
        <Button label={words.no} disabled={busy} act={() => box.current?.close()} />
        <Button kind="ops-danger" label={yes} disabled={busy} act={() => void run()} />
      </dialog>
    </>
  );
}
