/** The tasks of all owners, by filters that are in the address. */

import { useState } from "preact/hooks";
import { FILTERS, type Place, STATES, opsState, queryOf } from "../../model/ops";
import { address, api, config, go } from "../../state";
import { strings } from "../../strings";
import { Choice, Moment } from "../controls";
import { firstLine } from "../format";
import { Button } from "../icons";
import { Columns, OfExecutor, StateMark, To, place, placeAddress } from "./pieces";
import { Polled } from "./polled";

const words = strings.ops;

/** Show tasks, newest change of state first. */
export function Tasks() {
  const { view, ...filters } = place.value;
  return (
    <>
      <Filters filters={filters} />
      <Found key={queryOf(filters)} filters={filters} />
    </>
  );
}

type Given = Readonly<{ filters: Omit<Place, "view"> }>;

/** Show the tasks that match, so many pages of them. */
function Found({ filters }: Given) {
  const [pages, setPages] = useState(1);
  const none = queryOf(filters) ? words.noneMatch : words.noTasks;
  return (
    <Polled load={() => api.ops.tasks(filters, pages)} pages={pages}>
      {({ tasks, more }) => (
        <>
          <p class="aside" role="status">{tasks.length ? words.count(tasks.length, more) : more ? words.noMatch : none}</p>
          {tasks.length > 0 && (
            <Columns
              name={words.views.tasks} rows={tasks} id={({ taskId }) => taskId}
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
                  firstLine(error, 120) || (id ? <OfExecutor id={id} /> : "–")
                ), "ops-wide"],
              ]}
            />
          )}
          {more && <Button label={words.more} act={() => setPages(pages + 1)} />}
        </>
      )}
    </Polled>
  );
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
      {queryOf(filters) && <To place={{ view: "tasks" }}>{words.clear}</To>}
      <datalist id="ops-agents">{config.value?.agents.map(({ name }) => <option key={name} value={name} />)}</datalist>
    </form>
  );
}
