/** The view of operators: what needs attention, what runs and waits and where, how the last hour went, and all tasks of their tenant. */

import "../../style/ops.css";
import { type Backlog, type Executor, type OpsState, type Overview, type Percentiles, STATES, matrix } from "../../model/ops";
import { api, mayOperate, route } from "../../state";
import { strings } from "../../strings";
import { Head } from "../chat";
import { Facts, Part, Warnings } from "../controls";
import { duration, time } from "../format";
import { Polled, Refused } from "../polled";
import { PageLink } from "../links";
import { OfExecutor, StateMark, Table, place, placeAddress } from "./pieces";
import { Task, Tasks } from "./tasks";

const words = strings.ops;
const TABS = [["overview", {}], ["tasks", { view: "tasks" }], ["failures", { state: "failed" }]] as const;
const RATES = ["begun", "ended", "failed"] as const;
const LEFT = ["uncopied", "abandoned"] as const;
const COLOURS = { alive: "completed", silent: "failed", gone: "cancelled" } as const;

/** Show the part of the operators' view that the address names. */
export function Ops() {
  const { task } = route.value;
  const { view, state } = place.value;
  const shown = task ? "" : state === "failed" ? "failures" : view || "overview";
  const figures = <Polled load={api.ops.overview}>{overview}</Polled>;
  return (
    <section class="ops" aria-label={words.title}>
      <Head kind="ops-head" title={words.title}>
        {mayOperate.value && (
          <nav aria-label={words.title}>
            {TABS.map(([name, to]) => (
              <PageLink key={name} href={placeAddress(to)} class="row-link" here={name === shown}>{words.views[name]}</PageLink>
            ))}
          </nav>
        )}
      </Head>
      <div class="ops-body" tabIndex={-1}>
        {!mayOperate.value ? <Refused /> : task ? <Task key={task} id={task} /> : view ? <Tasks /> : figures}
      </div>
    </section>
  );
}

/** Show the figures of a tenant, which were read at a time. */
function overview(figures: Overview, at: string) {
  const { concerns, executors, queue, recent, bounded } = figures;
  const agents = matrix(figures);
  const inState = (state: OpsState) => ({ agent, counts }: (typeof agents)[number]) => count(agent, state, counts[state]);
  return (
    <>
      <Warnings name={words.concerns} none={words.fine} all={concerns}
        more={({ executor }) => executor && <OfExecutor id={executor}>{words.showWork}</OfExecutor>} />
      <Table
        title={words.byState} hint={agents.length ? words.byStateHint : words.noTasks} kind="ops-matrix"
        rows={agents} id={({ agent }) => agent}
        columns={[
          [words.agent, ({ agent }) => called(agent)],
          ...STATES.map((state) => [words.states[state], inState(state), state] as const),
        ]}
      />
      <Table
        title={words.executors} hint={executors.length ? words.executorsHint : <span class="ops-bad">{words.noExecutors}</span>}
        rows={executors} id={({ id }) => id}
        columns={[
          [words.executor, OfExecutor],
          [words.status, (one) => <StateMark state={COLOURS[status(one)]}>{words[status(one)]}</StateMark>],
          [words.lastSeen, ({ alive, lastSeenSeconds: s }) => (alive || s ? words.ago(seconds(s)) : "–")],
          [words.leases, ({ leases, running }) => [
            leases.toLocaleString(),
            leases > running && <strong class="ops-bad"> ({words.lapsed(leases - running)})</strong>,
          ]],
          [words.agents, (one) => one.agents.join(", ") || "–"],
        ]}
      />
      <Table
        title={words.queue} hint={queue.length ? words.queueHint : words.noQueue} rows={queue} id={({ agent }) => agent}
        columns={[
          [words.agent, ({ agent }) => called(agent)],
          [words.waiting, ({ agent, queued }) => count(agent, "pending", queued)],
          [words.oldest, ({ oldestSeconds }) => seconds(oldestSeconds)],
        ]}
      />
      <Part title={words.backlog}>
        <Facts rows={LEFT.map((of) => [words[of], left(figures[of])])} />
      </Part>
      <Part title={words.recent(time(recent.since))}>
        <Facts
          rows={[
            ...RATES.map((of) => [words.rates[of], <strong>{recent[of].toLocaleString()}</strong>]),
            [words.duration, times(recent.durationSeconds)],
            [words.queueTime, times(recent.queuedSeconds)],
          ]}
        />
      </Part>
      <p class="aside">{bounded && words.bounded} {words.updated(at)}</p>
    </>
  );
}

/** Return the name of an agent; null: all of them. */
const called = (agent: string | null) => (agent === null ? words.all : agent || words.noAgent);

/** A number of tasks, which leads to them. */
function count(agent: string | null, state: OpsState, tasks: number) {
  const shown = tasks.toLocaleString();
  if (!tasks) return <small>{shown}</small>;
  const label = `${called(agent)}, ${words.states[state]}: ${shown}`;
  return <PageLink href={placeAddress({ agent: agent ?? "", state })} aria-label={label}>{shown}</PageLink>;
}

const status = ({ alive, leases }: Executor) => (alive ? "alive" : leases ? "silent" : "gone");

function left({ count, oldestSeconds }: Backlog) {
  return [<strong>{count.toLocaleString()}</strong>, oldestSeconds !== null && `, ${words.since(seconds(oldestSeconds))}`];
}

function times(of: Percentiles | null) {
  if (!of) return words.unknown;
  return <>{words.median} <strong>{seconds(of.p50)}</strong>, {words.p95} <strong>{seconds(of.p95)}</strong></>;
}

const seconds = (value: number) => duration(value * 1000);
