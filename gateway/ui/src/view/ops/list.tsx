/** The tasks of all owners, by filters that are in the address. */

import { useMemo, useState } from "preact/hooks";
import { type Place, STATES, opsState, placeQuery } from "../../model/operations";
import type { OpsTask } from "../../model/ops";
import { api, config } from "../../state";
import { strings } from "../../strings";
import { firstLine, fullTime, time } from "../format";
import { StateMark, TaskLink, To, place, placeAddress, visit } from "./places";
import { Shown, usePolled } from "./polled";
import { Columns } from "./table";

const words = strings.ops;
const LONG = 3;
const LONG_MS = 30_000;

/** Show tasks, newest change of state first. */
export function TaskList() {
  const { view, ...query } = place.value;
  const name = placeQuery(place.value);
  const { found, more } = useTasks(name, query);
  const filtered = name !== placeQuery({ view });
  return (
    <>
      <Filters at={place.value} />
      <Shown of={found} wait={words.loading.tasks}>
        {({ tasks, more: older }) => (
          <>
            <p class="aside" role="status">{tasks.length ? words.count(tasks.length, older) : older ? words.noMatch : filtered ? words.noneMatch : words.noTasks}</p>
            {tasks.length > 0 && <Rows tasks={tasks} />}
            {older && <button type="button" class="button" onClick={more}>{words.more}</button>}
          </>
        )}
      </Shown>
    </>
  );
}

/** Read the tasks that match, so many pages of them. A long list is read again less often. */
export function useTasks(name: string, query: Parameters<typeof api.ops.tasks>[0]) {
  const [asked, setAsked] = useState({ name, pages: 1 });
  const pages = asked.name === name ? asked.pages : 1;
  const found = usePolled(`${name} ${pages}`, () => api.ops.tasks(query, pages), ...(pages > LONG ? [LONG_MS] : []));
  const [before, setBefore] = useState(found);
  if (found.data && found.data !== before.data) setBefore(found);
  const kept = pages > 1 && !found.data ? before.data : found.data;
  return { found: { ...found, data: kept }, more: () => setAsked({ name, pages: pages + 1 }) };
}

/** What the list is filtered by; the address changes with it. */
export function Filters({ at, failures = false }: { at: Place; failures?: boolean }) {
  const agents = config.value?.agents.map(({ name }) => name) ?? [];
  const to = (change: Partial<Place>) => visit(placeAddress({ ...at, ...change }));
  return (
    <form class="ops-filters" aria-label={words.filters} onSubmit={(event) => event.preventDefault()}>
      {!failures && (
        <label>
          {words.state}
          <select class="field" value={at.state} onChange={(event) => to({ state: event.currentTarget.value, error: false })}>
            <option value="">{words.anyState}</option>
            {STATES.map((state) => <option key={state} value={state}>{words.states[state]}</option>)}
          </select>
        </label>
      )}
      {(["agent", "owner", "executor"] as const).map((name) => (
        <label key={name}>
          {words[name]}
          <input
            class="field" name={name} defaultValue={at[name]} key={at[name]} list={`ops-${name}s`} placeholder={words.any}
            autocomplete="off" spellcheck={false} dir="auto" onChange={(event) => to({ [name]: event.currentTarget.value.trim() })}
          />
        </label>
      ))}
      {!failures && (
        <label class="ops-check">
          <input type="checkbox" checked={at.error} onChange={(event) => to({ error: event.currentTarget.checked, state: "" })} /> {words.onlyFailed}
        </label>
      )}
      {placeQuery(at) !== placeQuery({ view: at.view }) && <To place={{ view: at.view }}>{words.clear}</To>}
      <datalist id="ops-agents">{agents.map((name) => <option key={name} value={name} />)}</datalist>
    </form>
  );
}

function Rows({ tasks }: { tasks: readonly OpsTask[] }) {
  return useMemo(() => (
    <Columns
      name={words.views.tasks}
      rows={tasks}
      id={({ taskId }) => taskId}
      attributes={(task) => ({ "data-task-id": task.taskId, "data-state": opsState(task) })}
      columns={[
        [words.task, (task) => <TaskLink task={task} />],
        [words.state, (task) => <StateMark state={opsState(task)} />],
        [words.changed, ({ statusAt }) => <time dateTime={statusAt} title={fullTime(statusAt)}>{time(statusAt)}</time>],
        [words.agent, ({ agent }) => agent || words.noAgent],
        [words.owner, ({ owner }) => owner],
        [words.reason, ({ error, executor }) => (error ? firstLine(error, 120) : executor ? <To place={{ view: "tasks", executor }}>{executor}</To> : "–"), "ops-wide"],
      ]}
    />
  ), [tasks]);
}
