/** The timeline: a bar for each task of the session, with a segment for each state, to one scale; and what is known of one. */

import { computed } from "@preact/signals";
import { useEffect, useRef, useState } from "preact/hooks";
import { type Segment, TERMINAL, idle, lasted, segments } from "../../model/tasks";
import type { TaskInfo } from "../../model/view";
import { address, api, chat, go, mayWrite, narrow, panel, selected, session, view } from "../../state";
import { strings } from "../../strings";
import { copy, reply, reveal } from "../acts";
import { Act, ErrorCode, Facts, Moment, useEvery, useNewest, walk } from "../controls";
import { duration, exactTime, firstLine, nameOf } from "../format";
import { reasonOf } from "../toasts";

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
        <span class="sr-only">{[strings.states[task.state], ...spoken].join(", ")}</span>
        <span class="figure">{lasted(parts) ? duration(lasted(parts)) : ""}</span>
        {!open && <Why task={task} />}
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

/** Why a task did not end well, in short: the words of the server, and their code. */
function Why({ task }: { task: TaskInfo }) {
  const [what] = reasonOf(task);
  if (!what && !task.code) return null;
  return <small class="why"><span dir="auto">{firstLine(what, 200)}</span> <ErrorCode code={task.code} /></small>;
}

const rows = computed(() => view.value?.rows ?? []);
/** What each task is called: the first words that the user said in it. */
export const titles = computed(() => {
  const said = rows.value.flatMap((row) => (row.kind === "message" && row.message.role === "user" ? [row.message] : []));
  return new Map(said.reverse().map(({ taskId, text }) => [taskId, firstLine(text, 80)]));
});

/** Show why a task failed, its states with their times, its figures, and what came of it. */
function TaskDetails({ task, parts }: { task: TaskInfo; parts: readonly Segment[] }) {
  const open = view.value!;
  const message = open.rows.find((row) => row.kind === "message" && row.message.taskId === task.id)?.key;
  const ended = TERMINAL.has(task.state);
  const spoke = ended || open.rows.some((row) => row.kind === "message" && row.message.taskId === task.id && row.message.role === "agent");
  const stopping = open.stopping && open.running?.id === task.id;
  const [what, advice] = reasonOf(task);
  useEffect(() => {
    if (ended && !Object.keys(task.usage).length) void session.value?.loadUsage(task.id).catch(() => undefined);
  }, [task.id, ended]);
  // Of a task that has said nothing yet the log would be read for as long as it runs.
  useEffect(() => {
    if (spoke && task.firstOutputAt === null) void session.value?.loadFirstOutput(task.id).catch(() => undefined);
  }, [task.id, spoke]);
  const facts = [
    ...parts.map(({ state, at, ms }) => [
      <><span class="mark" data-state={state} /> {strings.states[state]}</>,
      <><Moment at={at}>{exactTime(at)}</Moment>{!TERMINAL.has(state) && ` · ${duration(ms)}`}</>,
    ]),
    [strings.panel.firstOutput, task.firstOutputAt && duration(Date.parse(task.firstOutputAt) - Date.parse(task.createdAt))],
    ...Object.entries(task.usage).map(([name, value]) => [name.replaceAll("_", " "), value.toLocaleString()]),
    [strings.chat.agent, task.agent],
    [strings.panel.id, task.id],
  ];
  return (
    <div class="opened">
      {(what || advice) && (
        <div class="reason" data-state={task.state}>
          {what && <strong dir="auto">{what}</strong>} <span>{advice}</span> <ErrorCode code={task.code} />
        </div>
      )}
      <Facts rows={facts} />
      <div class="acts">
        {open.artifacts.filter((one) => one.taskId === task.id).map((one) => (
          <Act key={one.id} icon="artifacts" label={nameOf(one)} act={() => reveal("artifacts", `${task.id}/${one.id}`)} />
        ))}
        {message && <Act icon="down" label={strings.panel.showMessages} act={() => leave(() => go(chat(open.id, { message }), true))} />}
        <Act icon="events" label={strings.panel.log} act={() => reveal("events", task.id)} />
        {mayWrite.value && ended && <Act icon="reply" label={strings.panel.reply} act={() => leave(() => reply(task.id))} />}
        <Act icon="link" label={strings.chat.copyLink} act={() => void copy(address(chat(open.id, { task: task.id })))} />
        {mayWrite.value && !ended && (
          <Act icon="stop" label={stopping ? strings.panel.canceling : strings.panel.cancel} off={stopping}
            act={() => void session.value?.stop(task.id)} />
        )}
      </div>
    </div>
  );
}

/** Go to the conversation, which the panel covers where it is narrow. */
function leave(act: () => void): void {
  if (narrow.value) panel.value = null;
  // The conversation takes the focus once nothing lies above it.
  setTimeout(act);
}
