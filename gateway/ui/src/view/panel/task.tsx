/** What there is to know of one task, and what can be done with it. */

import { type Segment } from "../../model/timeline";
import { TERMINAL } from "../../model/states";
import type { TaskInfo } from "../../model/view";
import { address, chat, go, mayWrite, panel, selected, session, view } from "../../state";
import { strings } from "../../strings";
import { focusBox } from "../acts";
import { copy } from "../copy";
import { duration, fullTime } from "../format";
import { Act } from "../act";
import { Icon } from "../icons";
import { words } from "../toasts";
import { nameOf } from "./preview";

const clock = new Intl.DateTimeFormat(undefined, { timeStyle: "medium" });

/** Show the states of a task with their times, its figures, why it failed, and what came of it. */
export function TaskDetails({ task, parts }: { task: TaskInfo; parts: readonly Segment[] }) {
  const open = view.value;
  if (!open) return null;
  const artifacts = open.artifacts.filter((one) => one.taskId === task.id);
  const message = open.rows.find((row) => row.kind === "message" && row.message.taskId === task.id)?.key;
  const ended = TERMINAL.has(task.state);
  const stopping = open.stopping && open.running?.id === task.id;
  return (
    <div class="task-details">
      {(task.error || strings.endings[task.state]) && <Reason task={task} />}
      <table class="states">
        <tbody>
          {parts.map(({ state, at, ms }) => (
            <tr key={`${state}${at}`}>
              <th scope="row"><span class="mark" data-state={state} /> {strings.states[state]}</th>
              <td><time dateTime={at} title={fullTime(at)}>{at && clock.format(new Date(at))}</time></td>
              <td class="figure">{TERMINAL.has(state) ? "" : duration(ms)}</td>
            </tr>
          ))}
        </tbody>
      </table>
      <dl class="facts">
        {task.firstOutputMs !== null && <Fact name={strings.panel.firstOutput} value={duration(task.firstOutputMs)} />}
        {Object.entries(task.usage).map(([name, value]) => (
          <Fact key={name} name={name.replaceAll("_", " ")} value={value.toLocaleString()} />
        ))}
        {task.agent && <Fact name={strings.panel.agent} value={task.agent} />}
        <Fact name={strings.panel.id} value={task.id} />
      </dl>
      {artifacts.length > 0 && (
        <div class="chips">
          {artifacts.map((one) => (
            <button
              key={one.id}
              type="button"
              class="chip"
              onClick={() => {
                selected.value = `${one.taskId}/${one.id}`;
                panel.value = "artifacts";
              }}
            >
              <Icon name="artifacts" size={14} /> <span dir="auto">{nameOf(one)}</span>
            </button>
          ))}
        </div>
      )}
      <div class="acts">
        {message && <Act icon="down" label={strings.panel.showMessages} act={() => jump(message)} />}
        <Act icon="events" label={strings.panel.log} act={() => (panel.value = "events")} />
        {mayWrite.value && ended && <Act icon="reply" label={strings.panel.reply} act={() => reply(task.id)} />}
        <Act icon="link" label={strings.panel.copyLink} act={() => void copy(address(chat(open.id, { task: task.id })))} />
        {mayWrite.value && !ended && (
          <Act icon="stop" label={stopping ? strings.panel.canceling : strings.panel.cancel} disabled={stopping} act={() => void session.value?.stop(task.id)} />
        )}
      </div>
    </div>
  );
}

function Reason({ task }: { task: TaskInfo }) {
  const [what, todo] = task.error ? words({ code: task.error, message: task.error, suggestion: "" }) : ["", ""];
  return (
    <div class="reason" data-state={task.state}>
      {what && <p dir="auto"><strong>{what}</strong></p>}
      <p>{todo || strings.endings[task.state]}</p>
    </div>
  );
}

function Fact({ name, value }: { name: string; value: string }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd dir="auto">{value}</dd>
    </div>
  );
}

function jump(message: string): void {
  go(chat(view.value?.id ?? "", { message }), true);
  if (matchMedia("(width < 900px)").matches) panel.value = null;
}

function reply(task: string): void {
  session.value?.replyTo(task);
  if (matchMedia("(width < 900px)").matches) panel.value = null;
  focusBox();
}
