/** The tasks of all owners, or those that failed by reason, by filters that are in the address. */

import { useState } from "preact/hooks";
import { FILTERS, type Place, STATES, opsState, placeQuery, reasons } from "../../model/operations";
import type { OpsTask } from "../../model/ops";
import { api, config } from "../../state";
import { strings } from "../../strings";
import { firstLine, time } from "../format";
import { Button } from "../icons";
import { Columns, Moment, OfExecutor, StateMark, TaskLink, To, place, placeAddress, visit } from "./pieces";
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
  const asked = view === "failures" ? { ...query, state: "failed" } : query;
  const failures = view === "failures";
  const count = (tasks: readonly OpsTask[], more: boolean) =>
    failures ? words.groups(tasks.length, reasons(tasks).length, more) : words.count(tasks.length, more);
  const none = Object.values(query).some(Boolean) ? words.noneMatch : failures ? words.noFailures : words.noTasks;
  return (
    <Polled load={() => api.ops.tasks(asked, pages)} turn={pages} {...(pages > LONG && { ms: LONG_MS })}>
      {({ tasks, more }) => (
        <>
          <p class="aside" role="status">{tasks.length ? count(tasks, more) : more ? words.noMatch : none}</p>
          {failures ? <Reasons tasks={tasks} /> : <Rows tasks={tasks} />}
          {more && <Button label={words.more} act={() => setPages(pages + 1)} />}
        </>
      )}
    </Polled>
  );
}

/** What is filtered by; the address changes with it. */
function Filters({ at }: { at: Place }) {
  const to = (change: Partial<Place>) => visit(placeAddress({ ...at, ...change }));
  const listed = at.view === "tasks";
  return (
    <form class="ops-filters" aria-label={words.filters} onSubmit={(event) => event.preventDefault()}>
      {listed && (
        <label>
          {words.state}
          <select class="field" value={at.state} onChange={(event) => to({ state: event.currentTarget.value })}>
            <option value="">{words.anyState}</option>
            {STATES.map((state) => <option key={state} value={state}>{words.states[state]}</option>)}
          </select>
        </label>
      )}
      {FILTERS.map((name) => (
        <label key={name}>
          {words[name]}
          <input
            class="field" name={name} defaultValue={at[name]} key={at[name]} list={name === "agent" ? "ops-agents" : undefined}
            placeholder={words.any} autocomplete="off" spellcheck={false} dir="auto"
            onChange={(event) => to({ [name]: event.currentTarget.value.trim() })}
          />
        </label>
      ))}
      {listed && (
        <label class="ops-check">
          <input
            type="checkbox" checked={at.state === "failed"}
            onChange={(event) => to({ state: event.currentTarget.checked ? "failed" : "" })}
          /> {words.onlyFailed}
        </label>
      )}
      {placeQuery(at) !== placeQuery({ view: at.view }) && <To place={{ view: at.view }}>{words.clear}</To>}
      <datalist id="ops-agents">{config.value?.agents.map(({ name }) => <option key={name} value={name} />)}</datalist>
    </form>
  );
}

function Rows({ tasks }: { tasks: readonly OpsTask[] }) {
  return tasks.length > 0 && (
    <Columns
      name={words.views.tasks} rows={tasks} id={({ taskId }) => taskId}
      marks={(task) => ({ "data-task-id": task.taskId, "data-state": opsState(task) })}
      columns={[
        [words.task, ({ taskId }) => <TaskLink id={taskId} />],
        [words.state, (task) => <StateMark state={opsState(task)} />],
        [words.changed, ({ statusAt }) => <Moment at={statusAt} />],
        [words.agent, ({ agent }) => agent || words.noAgent],
        [words.owner, ({ owner }) => owner],
        [words.reason, ({ error, executor: id }) => (error ? firstLine(error, 120) : id ? <OfExecutor id={id}>{id}</OfExecutor> : "–"), "ops-wide"],
      ]}
    />
  );
}

function Reasons({ tasks }: { tasks: readonly OpsTask[] }) {
  return (
    <ul class="ops-reasons">
      {reasons(tasks).map(([key, failed], index) => (
        <li key={key}>
          <details open={index === 0}>
            <summary>
              <span class="ops-count">{failed.length.toLocaleString()}</span>
              <strong dir="auto">{failed[0]!.error || words.noReason}</strong>
              <small>
                {[...new Set(failed.map(({ agent }) => agent || words.noAgent))].join(", ")} · {words.newest(time(failed[0]!.statusAt))}
              </small>
            </summary>
            <ul>
              {failed.map(({ taskId, statusAt, owner }) => (
                <li key={taskId}><TaskLink id={taskId} /> <Moment at={statusAt} /> <span dir="auto">{owner}</span></li>
              ))}
            </ul>
          </details>
        </li>
      ))}
    </ul>
  );
}
