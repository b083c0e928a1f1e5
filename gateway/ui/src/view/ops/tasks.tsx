/** The tasks of all owners, by filters that are in the address; and one of them, with its log and what can be done. */

import "../../style/panel.css";
import { useMemo, useRef, useState } from "preact/hooks";
import { opsLogPath } from "../../model/api";
import { FILTERS, type OpsTask, type Place, STATES, lapsed, opsState, queryOf } from "../../model/ops";
import { type LogEvent, Records, logged } from "../../model/records";
import { ROOT, address, api, chat, config, go, mayRead, mayWrite } from "../../state";
import { strings } from "../../strings";
import { Act, Button, Choice, ErrorCode, Facts, Moment, Part, type IconName } from "../controls";
import { duration, firstLine, fullTime, time } from "../format";
import { Inspector } from "../panel/events";
import { Polled } from "../polled";
import { toast, toastError } from "../toasts";
import { PageLink } from "../links";
import { OfExecutor, StateMark, Table, place, placeAddress } from "./pieces";

const words = strings.ops;
/** So many events are shown at first. */
const NEWEST = 500;

/** Show tasks, newest change of state first. */
export function Tasks() {
  const { view, ...filters } = place.value;
  return <><Filters filters={filters} /><Found key={queryOf(filters)} filters={filters} /></>;
}

type Given = Readonly<{ filters: Omit<Place, "view"> }>;

/** Show the tasks that match, so many pages of them. */
function Found({ filters }: Given) {
  const [pages, setPages] = useState(1);
  const none = filters.executor ? words.noneHeld : queryOf(filters) ? words.noneMatch : words.noTasks;
  return (
    <Polled load={() => api.ops.tasks(filters, pages)} pages={pages}>
      {({ tasks, more }) => (
        <>
          <Table
            title={words.views.tasks} rows={tasks} id={({ taskId }) => taskId}
            hint={<span role="status">{tasks.length ? words.count(tasks.length, more) : more ? words.noMatch : none}</span>}
            columns={[
              [words.task, ({ taskId: task, asked = "" }) => {
                const id = <code class="ops-id" dir="ltr">{task}</code>;
                const link = <PageLink href={address({ name: "ops", task })}>{firstLine(asked, 120) || id}</PageLink>;
                return [link, asked && <small><br />{id}</small>];
              }, "ops-wide"],
              [words.state, (task) => <StateMark state={opsState(task)} />],
              [words.changed, ({ statusAt }) => <Moment at={statusAt} />],
              [words.agent, ({ agent }) => agent || words.noAgent],
              [words.owner, ({ owner }) => owner],
              [words.reason, Reason, "ops-wide"],
            ]}
          />
          {more && <Button label={words.more} act={() => setPages(pages + 1)} />}
        </>
      )}
    </Polled>
  );
}

/** Why a task failed, with the code; else the executor that has it. */
function Reason({ error = "", errorCode, executor: id }: OpsTask) {
  if (error || errorCode) return <span>{firstLine(error, 120)} <ErrorCode code={errorCode} /></span>;
  return id ? <OfExecutor id={id} /> : <>–</>;
}

/** What is filtered by; the address changes with it. */
function Filters({ filters }: Given) {
  const changed = (form: HTMLFormElement) => go(placeAddress({ view: "tasks", ...Object.fromEntries(new FormData(form)) }));
  const states = STATES.map((state) => [state, words.states[state]] as const);
  return (
    <form class="ops-filters" aria-label={words.filters}
      onChange={(event) => changed(event.currentTarget)} onSubmit={(event) => event.preventDefault()}>
      <label>
        {words.state}
        <Choice label={words.state} name="state" value={filters.state} options={[["", words.anyState], ...states]} />
      </label>
      {FILTERS.map((name) => (
        <label key={name}>
          {words[name]}
          <input class="field" name={name} value={filters[name]} placeholder={words.any} dir="auto"
            list={name === "agent" ? "ops-agents" : undefined} autocomplete="off" spellcheck={false} />
        </label>
      ))}
      {queryOf(filters) && <PageLink href={placeAddress({ view: "tasks" })}>{words.clear}</PageLink>}
      <datalist id="ops-agents">{config.value?.agents.map(({ name }) => <option key={name} value={name} />)}</datalist>
    </form>
  );
}

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
          <Part title={words.record}><Facts rows={record(task)} /></Part>
          <Log {...task} />
        </>
      )}
    </Polled>
  );
}

/** Say what the user asked for with the message that began the task, and what became of it. */
function Doing({ task }: { task: OpsTask }) {
  const { asked, executor = "", document, statusAt, queuedAt = statusAt, leaseExpiresAt = "", completedAt, error, errorCode, cause, waiting } = task;
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
      {waiting && <p class="reason" data-waiting={waiting.code} dir="auto">{`${waiting.message} ${waiting.suggestion}`}</p>}
      {(error || errorCode) && (
        <p class="reason" data-state="failed"><span dir="auto">{error}</span> <ErrorCode code={errorCode} /></p>
      )}
      {cause && <p><code class="cause" dir="ltr">{cause}</code></p>}
    </>
  );
}

/** Return what the store tells of a task. */
function record(task: OpsTask) {
  const { agent, owner, contextId, taskId, executor = "", completedAt, copied } = task;
  const rests = completedAt || task.paused;
  const own = mayRead.value && owner === config.value?.caller?.user;
  const session = address(chat(contextId, { task: taskId }));
  const moment = (at?: string) => at && <Moment at={at}>{fullTime(at)}</Moment>;
  return [
    [words.agent, agent || words.noAgent],
    [words.owner, owner],
    [words.session, own ? <PageLink href={session}>{words.openSession}</PageLink> : <code dir="ltr">{contextId}</code>],
    [words.created, moment(task.createdAt)],
    [words.changed, moment(task.statusAt)],
    [words.executor, executor && <OfExecutor id={executor} />],
    [words.lease, moment(task.leaseExpiresAt)],
    [words.attempt, words.attemptOf(task.attempt, task.maxAttempts)],
    [words.fence, String(task.fence)],
    [words.generation, task.generation.toLocaleString()],
    [words.copied, rests && (copied ? words.yes : <strong class="ops-bad">{words.notCopied}</strong>)],
  ];
}

/** A button that asks before it acts. */
function Ask({ icon, name, task, done }: { icon: IconName; name: "cancel" | "delete"; task: string; done: () => void }) {
  const { label, ask, yes } = words[name];
  const box = useRef<HTMLDialogElement>(null);
  const run = () => void api.ops[name](task).then(done, toastError(label));
  return (
    <>
      <Act icon={icon} label={label} act={() => box.current?.showModal()} />
      <dialog ref={box} aria-label={label}>
        <p>{ask}</p>
        <form method="dialog" class="acts">
          <button class="button">{words.no}</button>
          <button class="button ops-bad" onClick={run}>{yes}</button>
        </form>
      </dialog>
    </>
  );
}

/** The log of a task up to its generation: its end first, all of it when asked for, and new events as they come. */
function Log({ taskId, generation, completedAt }: OpsTask) {
  const [from, setFrom] = useState(Math.max(0, generation - NEWEST));
  const records = useMemo(() => new Records(), [from]);
  const last = () => records.list.at(-1)?.number ?? from;
  const load = async () => {
    for (let after = last(); after < generation; ) {
      const { events, next_after: next = generation } = await api.ops.events(taskId, after);
      // Another reading may have come first.
      for (const event of events) if (event.generation > last()) records.keep(logged(taskId, event));
      after = next;
    }
    return records;
  };
  return (
    <Part title={words.log} hint={`${words.logHint} ${completedAt ? "" : words.follows}`}>
      {from > 0 && <Button kind="small" label={words.earlier} act={() => setFrom(0)} />}
      <div class="panel-part events ops-log">
        <Polled load={load} turn={`${from} ${generation}`}>
          {(records) => (
            // Functions that are made anew draw it anew: its records grow, and stay the same object.
            <Inspector records={records} none={words.noLog} more={({ body }) => words.by(body as Required<LogEvent>)}
              call={({ number }) => ({ url: new URL(opsLogPath(taskId, number - 1, 1), ROOT).href })} />
          )}
        </Polled>
      </div>
    </Part>
  );
}
