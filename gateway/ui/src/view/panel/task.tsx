/** What there is to know of one task, and what can be done with it. */

import { TERMINAL } from "../../model/states";
import { type Segment } from "../../model/timeline";
import type { TaskInfo } from "../../model/view";
import { address, chat, go, mayWrite, narrow, panel, session, view } from "../../state";
import { strings } from "../../strings";
import { reply, reveal } from "../acts";
import { Act, Facts, Moment } from "../controls";
import { copy } from "../copy";
import { duration, exactTime, nameOf } from "../format";
import { reasonOf } from "../toasts";

/** Show why a task failed, its states with their times, its figures, and what came of it. */
export function TaskDetails({ task, parts }: { task: TaskInfo; parts: readonly Segment[] }) {
  const open = view.value!;
  const message = open.rows.find((row) => row.kind === "message" && row.message.taskId === task.id)?.key;
  const ended = TERMINAL.has(task.state);
  const stopping = open.stopping && open.running?.id === task.id;
  const [what, advice] = reasonOf(task);
  const facts = [
    ...parts.map(({ state, at, ms }) => [
      <><span class="mark" data-state={state} /> {strings.states[state]}</>,
      <><Moment at={at}>{exactTime(at)}</Moment> {!TERMINAL.has(state) && duration(ms)}</>,
    ]),
    [strings.panel.firstOutput, task.firstOutputMs !== null && duration(task.firstOutputMs)],
    ...Object.entries(task.usage).map(([name, value]) => [name.replaceAll("_", " "), value.toLocaleString()]),
    [strings.chat.agent, task.agent],
    [strings.panel.id, task.id],
  ];
  return (
    <div class="opened">
      {(what || advice) && (
        <div class="reason" data-state={task.state}>{what && <strong dir="auto">{what}</strong>} <span>{advice}</span></div>
      )}
      <Facts rows={facts} />
      <div class="acts">
        {open.artifacts.filter((one) => one.taskId === task.id).map((one) => (
          <Act key={one.id} icon="artifacts" label={nameOf(one)} act={() => reveal("artifacts", `${task.id}/${one.id}`)} />
        ))}
      </div>
      <div class="acts">
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
