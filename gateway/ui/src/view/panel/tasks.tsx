/** The timeline: a bar for each task of the session, with a segment for each state, to one scale. */

import { computed } from "@preact/signals";
import { useEffect, useRef, useState } from "preact/hooks";
import { TERMINAL } from "../../model/states";
import { idle, lasted, segments } from "../../model/timeline";
import { api, selected, view } from "../../state";
import { strings } from "../../strings";
import { useEvery, useNewest, walk } from "../controls";
import { duration, firstLine } from "../format";
import { TaskDetails } from "./task";

const GAP_MS = 60_000;

/** Show the tasks of the open session, oldest first. */
export function Tasks() {
  const all = view.value?.tasks ?? [];
  const [, tick] = useState(0);
  const list = useRef<HTMLOListElement>(null);
  const runs = all.some((task) => !TERMINAL.has(task.state));
  useEvery(runs ? 1000 : 0, () => tick(Date.now()));
  const chosen = all.findIndex(({ id }) => id === selected.value);
  const [from, earlier] = useNewest(all.length, chosen);
  const shown = all.slice(from).map((task) => ({ task, parts: segments(task, api.now()) }));
  const longest = Math.max(1, ...shown.map(({ parts }) => lasted(parts)));
  const states = new Set(shown.flatMap(({ parts }) => parts.map(({ state }) => state)));
  useEffect(() => {
    (list.current?.querySelector(".open") ?? list.current?.lastElementChild)?.scrollIntoView({ block: "nearest" });
  }, [chosen]);
  if (!all.length) return <p class="empty">{strings.panel.noTasks}</p>;
  return (
    <>
      <ul class="legend" aria-hidden="true">
        {[...states].map((state) => <li key={state} data-state={state}>{strings.states[state]}</li>)}
      </ul>
      {earlier}
      <ol class="entries" ref={list} onKeyDown={(event) => walk(event, ".entry")}>
        {shown.map(({ task, parts }, index) => {
          const gap = index ? idle(shown[index - 1]!.task, task) : 0;
          const title = titles.value.get(task.id) || strings.panel.task(from + index + 1);
          const first = chosen < 0 ? index === shown.length - 1 : from + index === chosen;
          return [
            gap >= GAP_MS && <li key={`gap-${task.id}`} class="gap">{strings.panel.idle(duration(gap))}</li>,
            <TaskRow key={task.id} {...{ task, parts, longest, title, first }} open={from + index === chosen} />,
          ];
        })}
      </ol>
    </>
  );
}

/** One task; `first`: the Tab key comes to it. */
function TaskRow({ task, parts, longest, title, first, open }: Parameters<typeof TaskDetails>[0] & {
  longest: number; title: string; first: boolean; open: boolean;
}) {
  const spoken = parts.filter(({ ms }) => ms).map(({ state, ms }) => `${strings.states[state]} ${duration(ms)}`);
  const toggle = () => (selected.value = open ? "" : task.id);
  return (
    <li data-task-id={task.id} data-state={task.state} class={open ? "open" : undefined}>
      <button type="button" class="entry" tabIndex={first ? 0 : -1} aria-expanded={open} onClick={toggle}>
        <span class="mark" data-state={task.state} />
        <strong dir="auto">{title}</strong>
        <span class="sr-only">{strings.states[task.state]}</span>
        <span class="figure">{lasted(parts) ? duration(lasted(parts)) : ""}</span>
        <span class="sr-only">{spoken.join(", ")}</span>
        <span class="bar" aria-hidden="true">
          {parts.map(({ state, at, ms }) => (
            <span key={state + at} data-state={state} style={ms ? { inlineSize: `${(100 * ms) / longest}%` } : undefined} />
          ))}
        </span>
      </button>
      {open && <TaskDetails task={task} parts={parts} />}
    </li>
  );
}

const rows = computed(() => view.value?.rows ?? []);
/** What each task is called: the first words that the user said in it. */
export const titles = computed(() => {
  const said = rows.value.flatMap((row) => (row.kind === "message" && row.message.role === "user" ? [row.message] : []));
  return new Map(said.reverse().map(({ taskId, text }) => [taskId, firstLine(text, 80)]));
});
