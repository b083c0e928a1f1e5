/** The figures of a tenant: what needs attention, what runs and waits and where, and how the last hour went. */

import { type Concern, STATES, concerns, matrix, peak } from "../../model/operations";
import type { Backlog, Executor, Minute, Overview as Figures, Percentiles } from "../../model/ops";
import { api } from "../../state";
import { strings } from "../../strings";
import { duration, time } from "../format";
import { Icon } from "../icons";
import { StateMark, To } from "./places";
import { Shown, usePolled } from "./polled";
import { Columns, Part, Table } from "./table";

const words = strings.ops;
const RATES = ["begun", "ended", "failed"] as const;

/** Show the overview, read again every few seconds. */
export function Overview() {
  const found = usePolled("overview", () => api.ops.overview());
  return (
    <Shown of={found} wait={words.loading.overview}>
      {(figures) => (
        <>
          <Concerns figures={figures} />
          <ByState figures={figures} />
          <Executors executors={figures.executors} />
          <div class="ops-pair">
            <Queue queue={figures.queue} />
            <Left figures={figures} />
          </div>
          <Recent recent={figures.recent} />
          {figures.bounded && <p class="aside">{words.bounded}</p>}
          <p class="aside ops-updated">{words.updated(new Date(found.at).toLocaleTimeString())}</p>
        </>
      )}
    </Shown>
  );
}

function Concerns({ figures }: { figures: Figures }) {
  const found = concerns(figures);
  if (!found.length) return <p class="ops-fine"><Icon name="check" size={16} /> {words.fine}</p>;
  return (
    <Part title={words.concerns}>
      <ul class="ops-concerns">
        {found.map((one) => {
          const [what, todo] = said(one);
          return (
            <li key={what} data-concern={one.code}>
              <Icon name="alert" size={16} />
              <p>
                <strong dir="auto">{what}</strong> {todo} {"executor" in one && <To place={{ view: "tasks", executor: one.executor.id }}>{words.showWork(one.executor.leases)}</To>}
              </p>
            </li>
          );
        })}
      </ul>
    </Part>
  );
}

function said(one: Concern): readonly string[] {
  if (one.code === "SILENT") return words.concern.SILENT(one.executor.id, words.tasksOf(one.executor.leases), seconds(one.executor.lastSeenSeconds));
  const count = one.code === "ABANDONED" ? words.turnsOf(one.count) : words.tasksOf(one.count);
  if (one.code === "SLOW_QUEUE") return words.concern.SLOW_QUEUE(one.agent || words.noAgent, count, seconds(one.seconds));
  return words.concern[one.code](count, seconds(one.seconds));
}

function ByState({ figures }: { figures: Figures }) {
  const rows = matrix(figures);
  if (!rows.length) return <Part title={words.byState}><p class="aside">{words.noTasks}</p></Part>;
  return (
    <Part title={words.byState} hint={words.byStateHint}>
      <Table name={words.byState} kind="ops-matrix" head={[words.agent, ...STATES.map((state) => <StateMark state={state} />)]}>
        <tbody>
          {rows.map(({ agent, counts }) => (
            <tr key={agent}>
              <th scope="row" dir="auto">{agent || words.noAgent}</th>
              {STATES.map((state) => (
                <td key={state} data-state={state}>
                  {counts[state] ? (
                    <To place={{ view: "tasks", agent, state }} aria-label={`${agent || words.noAgent}, ${words.states[state]}: ${counts[state]}`}>{counts[state].toLocaleString()}</To>
                  ) : (
                    <span class="ops-none">0</span>
                  )}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
        {rows.length > 1 && (
          <tfoot>
            <tr>
              <th scope="row">{words.all}</th>
              {STATES.map((state) => <td key={state}>{rows.reduce((sum, { counts }) => sum + counts[state], 0).toLocaleString()}</td>)}
            </tr>
          </tfoot>
        )}
      </Table>
    </Part>
  );
}

function Executors({ executors }: { executors: readonly Executor[] }) {
  if (!executors.length) return <Part title={words.executors}><p class="ops-bad">{words.noExecutors}</p></Part>;
  return (
    <Part title={words.executors} hint={words.executorsHint}>
      <Columns
        name={words.executors}
        rows={executors}
        id={({ id }) => id}
        attributes={({ id, alive, leases }) => ({ "data-executor": id, "data-status": alive ? "alive" : leases ? "silent" : "gone" })}
        columns={[
          [words.executor, ({ id }) => <code dir="ltr">{id}</code>],
          [words.status, ({ alive, leases }) => <span class="ops-state" data-state={alive ? "completed" : leases && "failed"}>{alive ? words.alive : leases ? words.silent : words.gone}</span>],
          [words.lastSeen, ({ lastSeenSeconds }) => words.ago(seconds(lastSeenSeconds))],
          [words.leases, ({ leases, running }) => <>{leases.toLocaleString()}{leases > running && <strong class="ops-bad"> ({words.lapsed(leases - running)})</strong>}</>],
          [words.agents, ({ agents }) => agents.join(", ") || "–"],
          [words.work, ({ id, alive, leases }) => (leases ? <To place={{ view: "tasks", executor: id }}>{words.showWork(leases)}</To> : alive ? words.idle : words.nothing)],
        ]}
      />
    </Part>
  );
}

function Queue({ queue }: { queue: Figures["queue"] }) {
  if (!queue.length) return <Part title={words.queue} hint={words.queueHint}><p>{words.noQueue}</p></Part>;
  return (
    <Part title={words.queue} hint={words.queueHint}>
      <Columns
        name={words.queue}
        kind=""
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

function Left({ figures }: { figures: Figures }) {
  const row = (name: string, hint: string, { count, oldestSeconds }: Backlog) => (
    <div>
      <dt>{name}</dt>
      <dd><strong>{count.toLocaleString()}</strong>{count > 0 && oldestSeconds !== null && `, ${words.since(seconds(oldestSeconds))}`}</dd>
      <dd class="aside">{hint}</dd>
    </div>
  );
  return (
    <Part title={words.backlog}>
      <dl class="ops-left">
        {row(words.uncopied, words.uncopiedHint, figures.uncopied)}
        {row(words.abandoned, words.abandonedHint, figures.abandoned)}
      </dl>
    </Part>
  );
}

function Recent({ recent }: { recent: Figures["recent"] }) {
  const late = Date.parse(recent.since) - Date.parse(recent.perMinute[0]?.at ?? recent.since) > 0;
  return (
    <Part title={words.recent(recent.minutes)} {...(late && { hint: words.recentSince(time(recent.since)) })}>
      <div class="ops-rates">
        {RATES.map((of) => <Bars key={of} of={of} count={recent[of]} minutes={recent.perMinute} />)}
      </div>
      <dl class="ops-times">
        <Times name={words.duration} of={recent.durationSeconds} />
        <Times name={words.queueTime} of={recent.queuedSeconds} />
      </dl>
    </Part>
  );
}

/** One bar for each minute. Its name tells the figures; a bar tells its own to a pointer. */
function Bars({ of, count, minutes }: { of: (typeof RATES)[number]; count: number; minutes: readonly Minute[] }) {
  const most = peak(minutes, of);
  return (
    <figure class="ops-bars" data-rate={of}>
      <figcaption><span>{words.rates[of]}</span> <strong>{count.toLocaleString()}</strong></figcaption>
      <svg role="img" viewBox={`0 0 ${minutes.length} 20`} preserveAspectRatio="none" aria-label={words.rate(words.rates[of], count, most ? words.most(most.count, time(most.at)) : "")}>
        {minutes.map((one, index) => one[of] > 0 && (
          <rect key={one.at} x={index + 0.1} width={0.8} y={20 - (20 * one[of]) / (most?.count ?? 1)} height={(20 * one[of]) / (most?.count ?? 1)}>
            <title>{`${time(one.at)}: ${one[of].toLocaleString()}`}</title>
          </rect>
        ))}
      </svg>
      <div class="ops-axis" aria-hidden="true">
        <span>{time(minutes[0]?.at ?? "")}</span> <span>{words.perMinute(most?.count ?? 0)}</span> <span>{time(minutes.at(-1)?.at ?? "")}</span>
      </div>
    </figure>
  );
}

function Times({ name, of }: { name: string; of: Percentiles | null }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{of ? <>{words.median} <strong>{seconds(of.p50)}</strong>, {words.p95} <strong>{seconds(of.p95)}</strong></> : words.unknown}</dd>
    </div>
  );
}

function seconds(value: number): string {
  return duration(value * 1000);
}
