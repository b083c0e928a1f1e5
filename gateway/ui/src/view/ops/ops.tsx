/** The view of operators: figures of their tenant, and its tasks. */

import "../../style/ops.css";
import { mayOperate, route } from "../../state";
import { strings } from "../../strings";
import { Head } from "../chat";
import { Overview } from "./overview";
import { To, place } from "./pieces";
import { Refused } from "./polled";
import { Task } from "./task";
import { Tasks } from "./tasks";

const { title, views } = strings.ops;
const TABS = [["overview", {}], ["tasks", { view: "tasks" }], ["failures", { state: "failed" }]] as const;

/** Show the part of the operators' view that the address names. */
export function Ops() {
  const { task } = route.value;
  const { view, state } = place.value;
  const shown = task ? "" : state === "failed" ? "failures" : view || "overview";
  return (
    <section class="ops" aria-label={title}>
      <Head kind="ops-head" title={title}>
        {mayOperate.value && (
          <nav aria-label={title}>
            {TABS.map(([name, to]) => <To key={name} place={to} class="row-link" here={name === shown}>{views[name]}</To>)}
          </nav>
        )}
      </Head>
      <div class="ops-body" tabIndex={-1}>
        {!mayOperate.value ? <Refused /> : task ? <Task key={task} id={task} /> : view ? <Tasks /> : <Overview />}
      </div>
    </section>
  );
}
