/** Concerns of an operator, in words. */

import type { Executor, Overview } from "../../model/ops";
import { strings } from "../../strings";
import { duration } from "../format";

const SLOW_QUEUE_S = 10;
const UNCOPIED_S = 60;
const { concern, noAgent, tasksOf, turnsOf } = strings.ops;

/** Return a number of seconds in words. */
export function seconds(value: number): string {
  return duration(value * 1000);
}

/** Return what needs attention, most urgent first. Silent executors without a lease do not. */
export function concerns({ queue, executors, uncopied, abandoned }: Overview) {
  const waiting = queue.reduce((sum, { queued }) => sum + queued, 0);
  const first = Math.max(...queue.map(({ oldestSeconds }) => oldestSeconds));
  const alive = executors.some((one) => one.alive);
  const silent = executors.filter((one) => !one.alive && one.leases);
  const slow = queue.filter(({ oldestSeconds }) => alive && oldestSeconds >= SLOW_QUEUE_S);
  const [late, left] = [uncopied.oldestSeconds ?? 0, abandoned.oldestSeconds ?? 0];
  return [
    waiting > 0 && !alive && told("NO_EXECUTOR", concern.NO_EXECUTOR(tasksOf(waiting), seconds(first))),
    ...silent.map((one) => told("SILENT", concern.SILENT(one.id, tasksOf(one.leases), seconds(one.lastSeenSeconds)), one)),
    ...slow.map(({ agent, queued, oldestSeconds: waits }) =>
      told("SLOW_QUEUE", concern.SLOW_QUEUE(agent || noAgent, tasksOf(queued), seconds(waits))),
    ),
    uncopied.count > 0 && late >= UNCOPIED_S && told("UNCOPIED", concern.UNCOPIED(tasksOf(uncopied.count), seconds(late))),
    abandoned.count > 0 && told("ABANDONED", concern.ABANDONED(turnsOf(abandoned.count), seconds(left))),
  ].filter((one) => one !== false);
}

function told(code: string, [what, todo]: readonly string[], executor?: Executor) {
  return { code, what, todo, executor };
}
