/** The figures of a tenant: what needs attention, what runs and waits and where, and how the last hour went. */

import { STATES, matrix, peak } from "../../model/ops";
import type { Backlog, Executor, Overview as Figures, Percentiles } from "../../model/ops";
import { api } from "../../state";
import { strings } from "../../strings";
import { Facts, Part } from "../controls";
import { duration, time } from "../format";
import { Icon } from "../icons";
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
          <Concerns {...figures} />
          <ByState {...figures} />
          <Executors {...figures} />
          <div class="ops-pair">
            <Queue {...figures} />
            <Part kind="ops-part" title={words.backlog}>
              <Facts kind="ops-left" rows={LEFT.map((of) => [words[of], left(figures[of]), words[`${of}Hint`]])} />
            </Part>
          </div>
          <Recent {...figures} />
          {figures.bounded && <p class="aside">{words.bounded}</p>}
          <p class="aside ops-updated">{words.updated(at)}</p>
        </>
      )}
    </Polled>
  );
}

function Concerns({ concerns, executors }: Figures) {
  if (!concerns.length) return <p class="ops-fine"><Icon name="check" size={16} /> {words.fine}</p>;
  return (
    <Part kind="ops-part" title={words.concerns}>
      <ul class="ops-concerns">
        {concerns.map(({ code, message, suggestion, executor }, index) => (
          <li key={index} data-concern={code}>
            <Icon name="alert" size={16} />
            <p>
              <strong dir="auto">{message}</strong> {suggestion}{" "}
              {executors.map((one) => one.id === executor && <OfExecutor key={one.id} {...one} />)}
            </p>
          </li>
        ))}
      </ul>
    </Part>
  );
}

function ByState(figures: Figures) {
  const name = (agent: string | null) => (agent === null ? words.all : agent || words.noAgent);
  const cell = (state: (typeof STATES)[number]) => ({ agent, counts }: ReturnType<typeof matrix>[number]) => {
    const count = counts[state].toLocaleString();
    const label = `${name(agent)}, ${words.states[state]}: ${count}`;
    if (!counts[state]) return <span class="ops-none">0</span>;
    return <To place={{ view: "tasks", agent: agent ?? "", state }} aria-label={label}>{count}</To>;
  };
  return (
    <Columns
      name={words.byState} hint={words.byStateHint} kind="ops-matrix ops-cards" none={words.noTasks}
      rows={matrix(figures)} id={({ agent }) => agent}
      marks={({ agent }) => ({ class: agent === null ? "ops-all" : undefined })}
      columns={[
        [words.agent, ({ agent }) => name(agent)],
        ...STATES.map((state) => [<StateMark state={state} />, cell(state), `ops-in-${state}`, words.states[state]] as const),
      ]}
    />
  );
}

function Executors({ executors }: Figures) {
  const status = ({ alive, leases }: Executor) => (alive ? "alive" : leases ? "silent" : "gone");
  return (
    <Columns
      name={words.executors} hint={words.executorsHint} none={<span class="ops-bad">{words.noExecutors}</span>}
      rows={executors} id={({ id }) => id} marks={(one) => ({ "data-executor": one.id, "data-status": status(one) })}
      columns={[
        [words.executor, ({ id }) => <code dir="ltr">{id}</code>],
        [words.status, (one) => <StateMark state={COLOURS[status(one)]}>{words[status(one)]}</StateMark>],
        [words.lastSeen, ({ alive, lastSeenSeconds: s }) => (alive || s ? words.ago(seconds(s)) : "–")],
        [words.leases, ({ leases, running }) => [
          leases.toLocaleString(),
          leases > running && <strong class="ops-bad"> ({words.lapsed(leases - running)})</strong>,
        ]],
        [words.agents, ({ agents }) => agents.join(", ") || "–"],
        [words.work, (one) => (one.leases ? <OfExecutor {...one} /> : one.alive ? words.idle : words.nothing)],
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
        [words.waiting, ({ agent, queued }) => (
          <To place={{ view: "tasks", agent, state: "pending" }}>{queued.toLocaleString()}</To>
        )],
        [words.oldest, ({ oldestSeconds }) => seconds(oldestSeconds)],
      ]}
    />
  );
}

function left({ count, oldestSeconds }: Backlog) {
  return [<strong>{count.toLocaleString()}</strong>, oldestSeconds !== null && `, ${words.since(seconds(oldestSeconds))}`];
}

function Recent({ recent }: Figures) {
  const late = Date.parse(recent.since) > Date.parse(recent.perMinute[0]?.at ?? recent.since);
  const rate = (of: (typeof RATES)[number]) => {
    const most = peak(recent.perMinute, of);
    return [<strong>{recent[of].toLocaleString()}</strong>, most && words.most(most.count, time(most.at))];
  };
  return (
    <Part kind="ops-part" title={words.recent(recent.minutes)} hint={late && words.recentSince(time(recent.since))}>
      <Facts
        kind="ops-left"
        rows={[
          ...RATES.map((of) => [words.rates[of], rate(of)]),
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
