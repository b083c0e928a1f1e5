/** The tasks of all owners, or those that failed by reason, by filters that are in the address. */

import { useState } from "preact/hooks";
import { FILTERS, type OpsState, type OpsTask, type Place, STATES, opsState, placeQuery, reasons } from "../../model/ops";
import { address, api, config, go } from "../../state";
import { strings } from "../../strings";
import { Choice, Moment } from "../controls";
import { firstLine, time } from "../format";
import { Button } from "../icons";
import { Columns, OfExecutor, StateMark, To, place, placeAddress } from "./pieces";
import { Polled } from "./polled";

const words = strings.ops;
const LONG = 3;
const LONG_MS = 30_000;

/** Show tasks, newest change of state first. */
export function Tasks() {
  const at = place.value;
  return (
    <>
      <Filters at={at} />
      <Found key={placeQuery(at)} at={at} />
    </>
  );
}

/** Show the tasks that match, so many pages of them. A long list is read again less often. */
function Found({ at: { view, ...query } }: { at: Place }) {
  const [pages, setPages] = useState(1);
  const failures = view === "failures";
  const asked = failures ? { ...query, state: "failed" } : query;
  const count = (tasks: readonly OpsTask[], more: boolean) =>
    failures ? words.groups(tasks.length, reasons(tasks).length, more) : words.count(tasks.length, more);
  const none = Object.values(query).some(Boolean) ? words.noneMatch : failures ? words.noFailures : words.noTasks;
  return (
    <Polled load={() => api.ops.tasks(asked, pages)} turn={pages} {...(pages > LONG && { ms: LONG_MS })}>
      {({ tasks, more }) => (
        <>
          <p class="aside" role="status">{tasks.length ? count(tasks, more) : more ? words.noMatch : none}</p>
          {failures ? <Reasons tasks={tasks} /> : <Rows name={words.views.tasks} tasks={tasks} />}
          {more && <Button label={words.more} act={() => setPages(pages + 1)} />}
        </>
      )}
    </Polled>
  );
}

const called = (state: OpsState) => [state, words.states[state]] as const;

/** What is filtered by; the address changes with it. */
function Filters({ at }: { at: Place }) {
  const changed = (form: HTMLFormElement) => go(placeAddress({ ...at, ...Object.fromEntries(new FormData(form)) }));
  return (
    <form class="ops-filters" aria-label={words.filters}
      onChange={(event) => changed(event.currentTarget)} onSubmit={(event) => event.preventDefault()}>
      {at.view === "tasks" && (
        <label>
          {words.state}
          <Choice label={words.state} name="state" value={at.state} options={[["", words.anyState], ...STATES.map(called)]} />
        </label>
      )}
      {FILTERS.map((name) => (
        <label key={name}>
          {words[name]}
          <input class="field" name={name} defaultValue={at[name]} key={at[name]} placeholder={words.any} dir="auto"
            list={name === "agent" ? "ops-agents" : undefined} autocomplete="off" spellcheck={false} />
        </label>
      ))}
      {Object.values({ ...at, view: "" }).some(Boolean) && <To place={{ view: at.view }}>{words.clear}</To>}
      <datalist id="ops-agents">{config.value?.agents.map(({ name }) => <option key={name} value={name} />)}</datalist>
    </form>
  );
}

function Rows({ name, tasks }: { name: string; tasks: readonly OpsTask[] }) {
  return tasks.length > 0 && (
    <Columns
      name={name} rows={tasks} id={({ taskId }) => taskId}
      marks={(task) => ({ "data-task-id": task.taskId, "data-state": opsState(task) })}
      columns={[
        [words.task, ({ taskId: task, asked = "" }) => {
          const id = <code class="ops-id" dir="ltr">{task}</code>;
          return [<To href={address({ name: "ops", task })}>{firstLine(asked, 120) || id}</To>, asked && <small><br />{id}</small>];
        }, "ops-wide"],
        [words.state, (task) => <StateMark state={opsState(task)} />],
        [words.changed, ({ statusAt }) => <Moment at={statusAt} />],
        [words.agent, ({ agent }) => agent || words.noAgent],
        [words.owner, ({ owner }) => owner],
        [words.reason, ({ error = "", executor: id }) => (
          firstLine(error, 120) || (id ? <OfExecutor id={id}>{id}</OfExecutor> : "–")
        ), "ops-wide"],
      ]}
    />
  );
}

function Reasons({ tasks }: { tasks: readonly OpsTask[] }) {
  return (
    <ul class="ops-reasons">
      {reasons(tasks).map(([key, failed], index) => {
        const { error = words.noReason, statusAt } = failed[0]!;
        const agents = [...new Set(failed.map(({ agent }) => agent || words.noAgent))].join(", ");
        return (
          <li key={key}>
            <details open={index === 0}>
              <summary>
                <span class="ops-count">{failed.length.toLocaleString()}</span>
                <strong dir="auto">{error}</strong>
                <small>{agents} · {words.newest(time(statusAt))}</small>
              </summary>
              <Rows name={error} tasks={failed} />
            </details>
          </li>
        );
      })}
    </ul>
  );
}
