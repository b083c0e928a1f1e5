/** The timeline: a bar for each task of the session, with a segment for each state, to one scale. */

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { type Segment, idle, lasted, segments } from "../../model/timeline";
import { TERMINAL } from "../../model/states";
import type { Row, TaskInfo } from "../../model/view";
import { selected, view } from "../../state";
import { strings } from "../../strings";
import { duration, firstLine } from "../format";
import { Nothing } from "./panel";
import { TaskDetails } from "./task";

const PAGE = 100;
const GAP_MS = 60_000;

/** Show the tasks of the open session, oldest first. Arrow keys walk along them. */
export function Tasks() {
  const open = view.value;
  const [most, setMost] = useState(PAGE);
  const now = useNow(open?.tasks.some((task) => !TERMINAL.has(task.state)) ?? false);
  const list = useRef<HTMLOListElement>(null);
  const titles = useTitles(open?.rows ?? []);
  const all = open?.tasks ?? [];
  const chosen = all.some((task) => task.id === selected.value) ? selected.value : "";
  const from = Math.max(0, all.length - Math.max(most, chosen ? all.length - all.findIndex(({ id }) => id === chosen) : 0));
  useEffect(() => {
    (list.current?.querySelector(".open") ?? list.current?.lastElementChild)?.scrollIntoView({ block: "nearest" });
  }, [chosen]);
  if (!all.length) return <Nothing icon="tasks" text={strings.panel.noTasks} />;
  const shown = all.slice(from).map((task) => ({ task, parts: segments(task, now) }));
  const longest = Math.max(1, ...shown.map(({ parts }) => lasted(parts)));
  const states = [...new Set(shown.flatMap(({ parts }) => parts.map(({ state }) => state)))];
  const walk = (event: KeyboardEvent) => {
    const buttons = [...(list.current?.querySelectorAll<HTMLElement>(".task-row") ?? [])];
    const at = buttons.indexOf(event.target as HTMLElement);
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: buttons.length - 1 }[event.key];
    if (at < 0 || to === undefined) return;
    event.preventDefault();
    buttons[to]?.focus();
  };
  return (
    <>
      <ul class="legend" aria-hidden="true">
        {states.map((state) => (
          <li key={state} data-state={state}>{strings.states[state]}</li>
        ))}
      </ul>
      {from > 0 && (
        <button type="button" class="button small" onClick={() => setMost(all.length - from + PAGE)}>
          {strings.panel.earlier(Math.min(PAGE, from))}
        </button>
      )}
      <ol class="timeline" ref={list} onKeyDown={walk}>
        {shown.map(({ task, parts }, index) => {
          const before = shown[index - 1]?.task;
          const gap = before ? idle(before, task) : 0;
          return [
            gap >= GAP_MS && <li key={`gap-${task.id}`} class="gap">{strings.panel.idle(duration(gap))}</li>,
            <TaskRow
              key={task.id}
              task={task}
              parts={parts}
              longest={longest}
              title={titles.get(task.id) || strings.panel.task(from + index + 1)}
              open={task.id === chosen}
              reachable={chosen ? task.id === chosen : index === shown.length - 1}
            />,
          ];
        })}
      </ol>
    </>
  );
}

function TaskRow(props: { task: TaskInfo; parts: readonly Segment[]; longest: number; title: string; open: boolean; reachable: boolean }) {
  const { task, parts, longest, title, open } = props;
  const [focused, setFocused] = useState(false);
  const spoken = parts.filter(({ ms }) => ms > 0).map(({ state, ms }) => `${strings.states[state]} ${duration(ms)}`);
  return (
    <li data-task-id={task.id} data-state={task.state} class={open ? "open" : undefined}>
      <button
        type="button"
        class="task-row"
        tabIndex={props.reachable || focused ? 0 : -1}
        aria-expanded={open}
        onFocus={() => setFocused(true)}
        onBlur={() => setFocused(false)}
        onClick={() => (selected.value = open ? "" : task.id)}
      >
        <span class="task-title">
          <span class="mark" data-state={task.state} />
          <strong dir="auto">{title}</strong>
          <span class="sr-only">{strings.states[task.state]}</span>
          {lasted(parts) > 0 && <span class="figure">{duration(lasted(parts))}</span>}
        </span>
        <span class="sr-only">{spoken.join(", ")}</span>
        <span class="bar" aria-hidden="true">
          {parts.map(({ state, at, ms }) => (
            <span
              key={`${state}${at}`}
              data-state={state}
              title={ms ? `${strings.states[state]} ${duration(ms)}` : strings.states[state]}
              style={TERMINAL.has(state) ? undefined : { inlineSize: `${(100 * ms) / longest}%` }}
            />
          ))}
        </span>
      </button>
      {open && <TaskDetails task={task} parts={parts} />}
    </li>
  );
}

/** Return the time, anew every second while `running`. */
function useNow(running: boolean): number {
  const [now, setNow] = useState(Date.now);
  useEffect(() => {
    if (!running) return;
    const ticks = setInterval(() => setNow(Date.now()), 1000);
    return () => clearInterval(ticks);
  }, [running]);
  return running ? Math.max(now, Date.now()) : now;
}

/** Return what each task is called: the first words that the user said in it. */
export function useTitles(rows: readonly Row[]): ReadonlyMap<string, string> {
  return useMemo(() => {
    const found = new Map<string, string>();
    for (const row of rows)
      if (row.kind === "message" && row.message.role === "user" && row.message.taskId && !found.has(row.message.taskId))
        found.set(row.message.taskId, firstLine(row.message.text, 80));
    return found;
  }, [rows]);
}
