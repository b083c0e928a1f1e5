/** One task of any owner: what it does now, why it failed, its record, its log, and what can be done. */

import { useRef, useState } from "preact/hooks";
import { type OpsTask, lapsed, opsState } from "../../model/ops";
import { address, api, chat, config, go, mayRead, mayWrite } from "../../state";
import { strings } from "../../strings";
import { Act, Facts, Moment, Part } from "../controls";
import { duration, firstLine, fullTime, time } from "../format";
import { Button, type IconName } from "../icons";
import { toast, toastError } from "../toasts";
import { Log } from "./log";
import { OfExecutor, StateMark, To, placeAddress } from "./pieces";
import { Polled } from "./polled";

const words = strings.ops;

/** Show the task that the address names. */
export function Task({ id }: { id: string }) {
  const deleted = () => {
    go(placeAddress({ view: "tasks" }));
    toast(words.deleted);
  };
  return (
    <Polled load={() => api.ops.task(id)}>
      {(task, _, again) => (
        <>
          <section>
            <h2><span class="sr-only">{words.task} </span><code dir="ltr">{id}</code> <StateMark state={opsState(task)} /></h2>
            <Doing task={task} />
            <div class="acts">
              {!mayWrite.value && <p class="aside">{words.readOnly}</p>}
              {mayWrite.value && !task.completedAt && !task.document && <Ask icon="stop" name="cancel" task={id} done={again} />}
              {mayWrite.value && <Ask icon="trash" name="delete" task={id} done={deleted} />}
            </div>
          </section>
          <Record task={task} />
          <Log {...task} />
        </>
      )}
    </Polled>
  );
}

/** Say what the user asked for with the message that began the task, and what became of it. */
function Doing({ task }: { task: OpsTask }) {
  const { asked, executor = "", document, statusAt, queuedAt = statusAt, leaseExpiresAt = "", completedAt, error } = task;
  const state = opsState(task);
  const holds = state === "working" && executor && (lapsed(task, api.now()) ? "lapsed" : state);
  const doing = document ? "document" : completedAt ? "ended" : holds || (state === "paused" ? state : "pending");
  const took = duration(Date.parse(completedAt ?? "") - Date.parse(task.createdAt));
  return (
    <>
      {asked && <div class="prose"><blockquote dir="auto">{firstLine(asked, 160)}</blockquote></div>}
      <p>
        {words.doing[doing]({ executor, since: time(queuedAt), took, lease: time(leaseExpiresAt), state: words.states[state] })}
        {task.superseded && ` ${words.superseded}`}
      </p>
      {error && <p class="reason" data-state="failed" dir="auto">{error}</p>}
    </>
  );
}

function Record({ task }: { task: OpsTask }) {
  const { agent, owner, contextId, taskId, executor = "", completedAt, copied } = task;
  const rests = completedAt || task.paused;
  const own = mayRead.value && owner === config.value?.caller?.user;
  const moment = (at?: string) => at && <Moment at={at}>{fullTime(at)}</Moment>;
  return (
    <Part title={words.record}>
      <Facts
        rows={[
          [words.agent, agent || words.noAgent],
          [words.owner, owner],
          [words.session, own && <To href={address(chat(contextId, { task: taskId }))}>{words.openSession}</To>],
          [words.session, !own && [<code dir="ltr">{contextId}</code>, <small> {words.foreignSession(owner)}</small>]],
          [words.created, moment(task.createdAt)],
          [words.changed, moment(task.statusAt)],
          [words.executor, executor && <OfExecutor id={executor} />],
          [words.lease, moment(task.leaseExpiresAt)],
          [words.attempt, words.attemptOf(task.attempt, task.maxAttempts)],
          [words.fence, String(task.fence)],
          [words.generation, task.generation.toLocaleString()],
          [words.copied, rests && (copied ? words.yes : <strong class="ops-bad">{words.notCopied}</strong>)],
        ]}
      />
    </Part>
  );
}

/** A button that asks before it acts. */
function Ask({ icon, name, task, done }: { icon: IconName; name: "cancel" | "delete"; task: string; done: () => void }) {
  const { label, ask, yes } = words[name];
  const [busy, setBusy] = useState(false);
  const box = useRef<HTMLDialogElement>(null);
  const run = async () => {
    setBusy(true);
    await api.ops[name](task).then(done, toastError(label));
    setBusy(false);
    box.current?.close();
  };
  return (
    <>
      <Act icon={icon} label={label} act={() => box.current?.showModal()} />
      <dialog ref={box} class="ops-ask" tabIndex={-1} aria-label={label}>
        <p>{busy ? words.busy : ask}</p>
        <Button label={words.no} disabled={busy} act={() => box.current?.close()} />
        <Button class="button ops-bad" label={yes} disabled={busy} act={() => void run()} />
      </dialog>
    </>
  );
}
