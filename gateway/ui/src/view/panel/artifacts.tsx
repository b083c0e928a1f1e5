/** What the tasks of the session made: a list, and the one that is open with its versions. */

import { useEffect, useState } from "preact/hooks";
import type { Artifact } from "../../model/view";
import { selected, session, view } from "../../state";
import { strings } from "../../strings";
import { bytes } from "../format";
import { Icon } from "../icons";
import { Nothing } from "./panel";
import { ArtifactView, nameOf } from "./preview";
import { useTitles } from "./tasks";

const PAGE = 100;

/** Show the artifacts of the open session, oldest first; the one that was chosen, or the newest, is open. */
export function Artifacts() {
  const open = view.value;
  const [most, setMost] = useState(PAGE);
  const [closed, setClosed] = useState("");
  const titles = useTitles(open?.rows ?? []);
  useEffect(() => void session.value?.loadArtifacts(), [session.value, open?.tasks.length]);
  const all = open?.artifacts ?? [];
  if (!all.length) return <Nothing icon="artifacts" text={strings.panel.noArtifacts} />;
  const wanted = all.findLast((one) => [keyOf(one), one.id, one.taskId].includes(selected.value));
  const shown = wanted ?? all.at(-1)!;
  const from = Math.max(0, Math.min(all.length - most, all.indexOf(shown)));
  return (
    <>
      {from > 0 && (
        <button type="button" class="button small" onClick={() => setMost(all.length - from + PAGE)}>
          {strings.panel.earlierArtifacts(Math.min(PAGE, from))}
        </button>
      )}
      <ul class="artifacts-list">
        {all.slice(from).map((one) => (
          <Entry
            key={keyOf(one)}
            artifact={one}
            task={titles.get(one.taskId) ?? ""}
            open={one === shown && closed !== keyOf(one)}
            toggle={(opens) => {
              selected.value = keyOf(one);
              setClosed(opens ? "" : keyOf(one));
            }}
          />
        ))}
      </ul>
    </>
  );
}

function Entry({ artifact, task, open, toggle }: { artifact: Artifact; task: string; open: boolean; toggle: (opens: boolean) => void }) {
  const current = artifact.versions.at(-1);
  const about = [
    bytes(current?.size ?? 0),
    artifact.versions.length > 1 ? strings.panel.versions(artifact.versions.length) : "",
    current?.complete === false ? strings.panel.grows : "",
    task,
  ];
  return (
    <li data-artifact-id={artifact.id} class={open ? "open" : undefined}>
      <button type="button" class="artifact-row" aria-expanded={open} onClick={() => toggle(!open)}>
        <Icon name="chevron" size={16} />
        <span class="what">
          <strong dir="auto">{nameOf(artifact)}</strong>
          <small dir="auto">{about.filter(Boolean).join(" · ")}</small>
        </span>
        {current?.complete === false && <span class="spinner" />}
      </button>
      {open && <ArtifactView artifact={artifact} />}
    </li>
  );
}

function keyOf(artifact: Artifact): string {
  return `${artifact.taskId}/${artifact.id}`;
}
