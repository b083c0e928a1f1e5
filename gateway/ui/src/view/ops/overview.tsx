/** The figures of a tenant: what needs attention, what runs and waits and where, and how the last hour went. */

import { STATES, matrix, peak } from "../../model/operations";
import type { Backlog, Minute, Overview as Figures, Percentiles } from "../../model/ops";
import { api } from "../../state";
import { strings } from "../../strings";
import { time } from "../format";
import { Icon } from "../icons";
import { concerns, seconds } from "./concerns";
import { StateMark, To } from "./places";
import { Polled } from "./polled";
import { Columns, Facts, Part } from "./table";

const words = strings.ops;
const RATES = ["begun", "ended", "failed"] as const;
type Of<Name extends keyof Figures> = Readonly<Record<Name, Figures[Name]>>;

/** Show the overview, read again every few seconds. */
export function Overview() {
  return (
    <Polled load={() => api.ops.overview()} wait={words.loading.overview}>
      {(figures, at) => (
        <>
          <Concerns figures={figures} />
          <ByState figures={figures} />
          <Executors executors={figures.executors} />
          <div class="ops-pair">
            <Queue queue={figures.queue} />
            <Part title={words.backlog}>
              <Facts
                kind="ops-left"
                rows={[
                  [words.uncopied, left(figures.uncopied), <small>{words.uncopiedHint}</small>],
                  [words.abandoned, left(figures.abandoned), <small>{words.abandonedHint}</small>],
                ]}
              />
            </Part>
          </div>
          <Recent recent={figures.recent} />
          {figures.bounded && <p class="aside">{words.bounded}</p>}
          <p class="aside ops-updated">{words.updated(at)}</p>
        </>
      )}
    </Polled>
  );
}

function Concerns({ figures }: { figures: Figures }) {
  const found = concerns(figures);
  if (!found.length) return <p class="ops-fine"><Icon name="check" size={16} /> {words.fine}</p>;
  return (
    <Part title={words.concerns}>
      <ul class="ops-concerns">
        {found.map(({ code, what, todo, executor }) => (
          <li key={what} data-concern={code}>
            <Icon name="alert" size={16} />
            <p><strong dir="auto">{what}</strong> {todo} {executor && <Work {...executor} />}</p>
          </li>
        ))}
      </ul>
    </Part>
  );
}

function Work({ id, leases }: Figures["executors"][number]) {
  return <To place={{ view: "tasks", executor: id }}>{words.showWork(leases)}</To>;
}

function ByState({ figures }: { figures: Figures }) {
  const name = (agent: string | null) => (agent === null ? words.all : agent || words.noAgent);
  return (
    <Part title={words.byState} hint={words.byStateHint}>
      <Columns
        name={words.byState}
        kind="ops-matrix"
        none={words.noTasks}
        rows={matrix(figures)}
        id={({ agent }) => agent}
        marks={({ agent }) => ({ class: agent === null ? "ops-all" : undefined })}
        columns={[
          [words.agent, ({ agent }) => name(agent)],
          ...STATES.map((state) => [
            <StateMark state={state} />,
            ({ agent, counts: { [state]: count } }: ReturnType<typeof matrix>[number]) => {
              if (!count) return <span class="ops-none">0</span>;
              const to = { view: "tasks", agent: agent ?? "", state } as const;
              return <To place={to} aria-label={`${name(agent)}, ${words.states[state]}: ${count}`}>{count.toLocaleString()}</To>;
            },
            `ops-in-${state}`,
          ] as const),
        ]}
      />
    </Part>
  );
}

function Executors({ executors }: Of<"executors">) {
  return (
    <Part title={words.executors} hint={words.executorsHint}>
      <Columns
        name={words.executors}
        none={<span class="ops-bad">{words.noExecutors}</span>}
        rows={executors.map((one) => ({ ...one, status: one.alive ? "alive" as const : one.leases ? "silent" as const : "gone" as const }))}
        id={({ id }) => id}
        marks={({ id, status }) => ({ "data-executor": id, "data-status": status })}
        columns={[
          [words.executor, ({ id }) => <code dir="ltr">{id}</code>],
          [words.status, ({ status }) => <StateMark state={COLOURS[status]}>{words[status]}</StateMark>],
          [words.lastSeen, ({ lastSeenSeconds }) => words.ago(seconds(lastSeenSeconds))],
          [words.leases, ({ leases, running }) => [
            leases.toLocaleString(), leases > running && <strong class="ops-bad"> ({words.lapsed(leases - running)})</strong>,
          ]],
          [words.agents, ({ agents }) => agents.join(", ") || "–"],
          [words.work, (one) => (one.leases ? <Work {...one} /> : one.alive ? words.idle : words.nothing)],
        ]}
      />
    </Part>
  );
}

const COLOURS = { alive: "completed", silent: "failed", gone: "cancelled" } as const;

function Queue({ queue }: Of<"queue">) {
  return (
    <Part title={words.queue} hint={words.queueHint}>
      <Columns
        name={words.queue}
        kind=""
        none={words.noQueue}
        rows={queue}
        id={({ agent }) => agent}
        columns={[
          [words.agent, ({ agent }) => agent || words.noAgent],
          [words.waiting, ({ agent, queued }) => <To place={{ view: "tasks", agent, state: "pending" }}>{queued.toLocaleString()}</To>],
          [words.oldest, ({ oldestSeconds }) => seconds(oldestSeconds)],
        ]}
      />
    </Part>
  );
}

function left({ count, oldestSeconds }: Backlog) {
  return <><strong>{count.toLocaleString()}</strong>{oldestSeconds !== null && `, ${words.since(seconds(oldestSeconds))}`}</>;
}

function Recent({ recent }: Of<"recent">) {
  const late = Date.parse(recent.since) > Date.parse(recent.perMinute[0]?.at ?? recent.since);
  return (
    <Part title={words.recent(recent.minutes)} hint={late && words.recentSince(time(recent.since))}>
      <div class="ops-rates">
        {RATES.map((of) => <Bars key={of} of={of} count={recent[of]} minutes={recent.perMinute} />)}
      </div>
      <Facts kind="ops-times" rows={[[words.duration, times(recent.durationSeconds)], [words.queueTime, times(recent.queuedSeconds)]]} />
    </Part>
  );
}

/** One bar for each minute. Its name tells the figures; a bar tells its own to a pointer. */
function Bars({ of, count, minutes }: { of: (typeof RATES)[number]; count: number; minutes: readonly Minute[] }) {
  const most = peak(minutes, of);
  const name = words.rate(words.rates[of], count, most ? words.most(most.count, time(most.at)) : "");
  return (
    <figure class="ops-bars" data-rate={of}>
      <figcaption><span>{words.rates[of]}</span> <strong>{count.toLocaleString()}</strong></figcaption>
      <svg role="img" viewBox={`0 0 ${minutes.length} 1`} preserveAspectRatio="none" aria-label={name}>
        {most && minutes.map((one, index) => one[of] > 0 && (
          <rect key={one.at} x={index + 0.1} width={0.8} y={1 - one[of] / most.count} height={one[of] / most.count}>
            <title>{`${time(one.at)}: ${one[of].toLocaleString()}`}</title>
          </rect>
        ))}
      </svg>
      <div class="ops-axis" aria-hidden="true">
        <span>{time(minutes[0]?.at ?? "")}</span> <span>{words.perMinute(most?.count ?? 0)}</span>{" "}
        <span>{time(minutes.at(-1)?.at ?? "")}</span>
      </div>
    </figure>
  );
}

function times(of: Percentiles | null) {
  return of ? <>{words.median} <strong>{seconds(of.p50)}</strong>, {words.p95} <strong>{seconds(of.p95)}</strong></> : words.unknown;
}
