/** The tasks that failed, by reason. */

import { placeQuery, reasons } from "../../model/operations";
import { strings } from "../../strings";
import { fullTime, time } from "../format";
import { Filters, useTasks } from "./list";
import { TaskLink, place } from "./places";
import { Shown } from "./polled";

const words = strings.ops;

/** Show why tasks failed, most frequent reason first, each with its tasks. */
export function Failures() {
  const { agent, owner, executor } = place.value;
  const { found, more } = useTasks(placeQuery(place.value), { agent, owner, executor, error: true });
  return (
    <>
      <Filters at={place.value} failures />
      <Shown of={found} wait={words.loading.failures}>
        {({ tasks, more: older }) => {
          const groups = reasons(tasks);
          return (
            <>
              <p class="aside" role="status">{tasks.length ? words.groups(tasks.length, groups.length, older) : older ? words.noMatch : words.noFailures}</p>
              <ul class="ops-reasons">
                {groups.map(({ key, text, tasks: failed }, index) => (
                  <li key={key}>
                    <details open={index === 0}>
                      <summary>
                        <span class="ops-count">{failed.length.toLocaleString()}</span>
                        <strong dir="auto">{text || words.noReason}</strong>
                        <small>{[...new Set(failed.map((task) => task.agent || words.noAgent))].join(", ")} · {words.newest(time(failed[0]?.statusAt ?? ""))}</small>
                      </summary>
                      <ul>
                        {failed.map((task) => (
                          <li key={task.taskId}>
                            <TaskLink task={task} /> <time dateTime={task.statusAt} title={fullTime(task.statusAt)}>{time(task.statusAt)}</time> <span dir="auto">{task.owner}</span>
                          </li>
                        ))}
                      </ul>
                    </details>
                  </li>
                ))}
              </ul>
              {older && <button type="button" class="button" onClick={more}>{words.more}</button>}
            </>
          );
        }}
      </Shown>
    </>
  );
}
