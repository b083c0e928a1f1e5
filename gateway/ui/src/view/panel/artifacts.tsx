/** What the tasks of the session made: a list, and the one that is open. */

import { useEffect, useState } from "preact/hooks";
import type { Artifact } from "../../model/view";
import { selected, session, view } from "../../state";
import { strings } from "../../strings";
import { useNewest, walk } from "../controls";
import { aboutOf, nameOf } from "../format";
import { Icon } from "../icons";
import { ArtifactView } from "./preview";
import { titles } from "./tasks";

/** Show the artifacts of the open session, oldest first; the one that was chosen, or the newest, is open. */
export function Artifacts() {
  const { tasks = [], artifacts: all = [] } = view.value ?? {};
  const [closed, setClosed] = useState("");
  useEffect(() => void session.value?.loadArtifacts(), [session.value, tasks.length]);
  const shown = all.findLast((one) => [keyOf(one), one.id, one.taskId].includes(selected.value)) ?? all.at(-1)!;
  const [from, earlier] = useNewest(all.length, all.indexOf(shown));
  if (!all.length) return <p class="empty">{strings.panel.noArtifacts}</p>;
  const toggle = (key: string, open: boolean) => {
    selected.value = key;
    setClosed(open ? key : "");
  };
  return (
    <>
      {earlier}
      <ul class="entries" onKeyDown={(event) => walk(event, ".entry")}>
        {all.slice(from).map((one) => {
          const open = one === shown && closed !== keyOf(one);
          return (
            <li key={keyOf(one)} data-artifact-id={one.id} class={open ? "open" : undefined}>
              <button type="button" class="entry" aria-expanded={open} onClick={() => toggle(keyOf(one), open)}>
                <Icon name="chevron" size={16} />
                <strong dir="auto">{nameOf(one)}</strong>
                <small dir="auto">{aboutOf(one, titles.value.get(one.taskId))}</small>
              </button>
              {open && <ArtifactView artifact={one} />}
            </li>
          );
        })}
      </ul>
    </>
  );
}

function keyOf({ taskId, id }: Artifact): string {
  return `${taskId}/${id}`;
}
