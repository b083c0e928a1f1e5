/** The view of operators: figures of their tenant, its tasks, and why they failed. */

import "../../style/ops.css";
import { useEffect } from "preact/hooks";
import { VIEWS } from "../../model/operations";
import { mayOperate, route } from "../../state";
import { strings } from "../../strings";
import { IconButton } from "../icons";
import { drawer } from "../keyboard";
import { Failures } from "./failures";
import { TaskList } from "./list";
import { Overview } from "./overview";
import { To, place } from "./places";
import { Refused } from "./polled";
import { TaskPage } from "./task";

/** Show the part of the operators' view that the address names. */
export function Ops() {
  const { task } = route.value;
  const shown = task ? "task" : place.value.view;
  useEffect(() => {
    document.title = `${strings.ops.title} · ${strings.product}`;
  });
  return (
    <section class="ops" aria-label={strings.ops.title}>
      <header class="ops-head">
        <IconButton icon="menu" class="narrow-only" label={strings.chat.menu} onClick={() => (drawer.value = true)} />
        <h1>{strings.ops.title}</h1>
        {mayOperate.value && (
          <nav aria-label={strings.ops.title}>
            {VIEWS.map((view) => (
              <To key={view} place={{ view }} class="ops-tab" aria-current={view === shown ? "page" : undefined}>
                {strings.ops.views[view]}
              </To>
            ))}
          </nav>
        )}
      </header>
      <div class="ops-body">
        {!mayOperate.value ? <Refused /> : <Part shown={shown} task={task} />}
      </div>
    </section>
  );
}

function Part({ shown, task }: { shown: "task" | (typeof VIEWS)[number]; task: string }) {
  if (shown === "task") return <TaskPage key={task} id={task} />;
  if (shown === "overview") return <Overview />;
  return shown === "failures" ? <Failures /> : <TaskList />;
}
