/** The figures of a tenant: what needs attention, what runs and waits and where, and how the last hour went. */

import { STATES, matrix } from "../../model/ops";
import type { Backlog, Executor, Overview as Figures, Percentiles } from "../../model/ops";
import { api } from "../../state";
import { strings } from "../../strings";
import { Warnings } from "../agent/warnings";
import { Facts, Part } from "../controls";
import { duration, time } from "../format";
import { Columns, OfExecutor, StateMark, To } from "./pieces";
import { Polled } from "./polled";

const words = strings.ops;
const RATES = ["begun", "ended", "failed"] as const;
const LEFT = ["uncopied", "abandoned"] as const;
const COLOURS = { alive: "completed", silent: "failed", gone: "cancelled" } as const;

/** Show the overview, read again every few seconds. */
export function Overview() {
  return (
    <Polled load={() => api.ops.overview()}>
      {(figures, at) => (
        <>
          <Warnings name={words.concerns} none={words.fine} all={figures.concerns}
            more={({ executor }) => executor && <OfExecutor id={executor}>{words.showWork}</OfExecutor>} />
          <ByState {...figures} />
          <Executors {...figures} />
          <div class="ops-pair">
            <Queue {...figures} />
            <Part title={words.backlog}>
              <Facts rows={LEFT.map((of) => [words[of], left(figures[of])])} />
            </Part>
          </div>
          <Recent {...figures} />
          {figures.bounded && <p class="aside">{words.bounded}</p>}
          <p class="aside">{words.updated(at)}</p>
        </>
      )}
    </Polled>
  );
}

function ByState(figures: Figures) {
  const name = (agent: string | null) => (agent === null ? words.all : agent || words.noAgent);
  const cell = (state: (typeof STATES)[number]) => ({ agent, counts }: ReturnType<typeof matrix>[number]) => {
    const count = counts[state].toLocaleString();
    if (!counts[state]) return <small>{count}</small>;
    return <To place={{ agent: agent ?? "", state }} aria-label={`${name(agent)}, ${words.states[state]}: ${count}`}>{count}</To>;
  };
  return (
    <Columns
      name={words.byState} hint={words.byStateHint} kind="ops-matrix ops-cards" none={words.noTasks}
      rows={matrix(figures)} id={({ agent }) => agent}
      columns={[[words.agent, ({ agent }) => name(agent)], ...STATES.map((state) => [words.states[state], cell(state), state] as const)]}
    />
  );
}

function Executors({ executors }: Figures) {
  const status = ({ alive, leases }: Executor) => (alive ? "alive" : leases ? "silent" : "gone");
  return (
    <Columns
      name={words.executors} hint={words.executorsHint} none={<span class="ops-bad">{words.noExecutors}</span>}
      rows={executors} id={({ id }) => id}
      columns={[
        [words.executor, OfExecutor],
        [words.status, (one) => <StateMark state={COLOURS[status(one)]}>{words[status(one)]}</StateMark>],
        [words.lastSeen, ({ alive, lastSeenSeconds: s }) => (alive || s ? words.ago(seconds(s)) : "–")],
        [words.leases, ({ leases, running }) => [
          leases.toLocaleString(),
          leases > running && <strong class="ops-bad"> ({words.lapsed(leases - running)})</strong>,
        ]],
        [words.agents, ({ agents }) => agents.join(", ") || "–"],
      ]}
    />
  );
}

function Queue({ queue }: Figures) {
  return (
    <Columns
      name={words.queue} hint={words.queueHint} kind="" none={words.noQueue} rows={queue} id={({ agent }) => agent}
      columns={[
        [words.agent, ({ agent }) => agent || words.noAgent],
        [words.waiting, ({ agent, queued }) => <To place={{ agent, state: "pending" }}>{queued.toLocaleString()}</To>],
        [words.oldest, ({ oldestSeconds }) => seconds(oldestSeconds)],
      ]}
    />
  );
}

function left({ count, oldestSeconds }: Backlog) {
  return [<strong>{count.toLocaleString()}</strong>, oldestSeconds !== null && `, ${words.since(seconds(oldestSeconds))}`];
}

function Recent({ recent }: Figures) {
  return (
    <Part title={words.recent(time(recent.since))}>
      <Facts
        rows={[
          ...RATES.map((of) => [words.rates[of], <strong>{recent[of].toLocaleString()}</strong>]),
          [words.duration, times(recent.durationSeconds)],
          [words.queueTime, times(recent.queuedSeconds)],
        ]}
      />
    </Part>
  );
}

function times(of: Percentiles | null) {
  if (!of) return words.unknown;
  return <>{words.median} <strong>{seconds(of.p50)}</strong>, {words.p95} <strong>{seconds(of.p95)}</strong></>;
}

function seconds(value: number): string {
  return duration(value * 1000);
}
