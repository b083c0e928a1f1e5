/** The view of operators: figures of their tenant, its tasks, and why they failed. */

import "../../style/ops.css";
import { VIEWS } from "../../model/ops";
import { mayOperate, route } from "../../state";
import { strings } from "../../strings";
import { Head } from "../chat";
import { Overview } from "./overview";
import { To, place } from "./pieces";
import { Refused } from "./polled";
import { Task } from "./task";
import { Tasks } from "./tasks";

const { title, views } = strings.ops;

/** Show the part of the operators' view that the address names. */
export function Ops() {
  const { task } = route.value;
  const shown = task ? "" : place.value.view;
  return (
    <section class="ops" aria-label={title}>
      <Head kind="ops-head" title={title}>
        {mayOperate.value && (
          <nav aria-label={title}>
            {VIEWS.map((view) => <To key={view} place={{ view }} class="ops-tab" here={view === shown}>{views[view]}</To>)}
          </nav>
        )}
      </Head>
      <div class="ops-body" tabIndex={-1}>
        {!mayOperate.value ? <Refused /> : task ? <Task key={task} id={task} /> : shown === "overview" ? <Overview /> : <Tasks />}
      </div>
    </section>
  );
}
