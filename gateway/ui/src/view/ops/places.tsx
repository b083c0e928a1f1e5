/** Links within the operators' view; what is filtered is in the address, so that it can be shared. */

import { computed } from "@preact/signals";
import type { JSX } from "preact";
import { type OpsState, type Place, placeQuery, readPlace } from "../../model/operations";
import type { OpsTask } from "../../model/ops";
import { address, read, route } from "../../state";
import { strings } from "../../strings";
import { follow } from "../sidebar";

/** What the address names. */
export const place = computed<Place>(() => readPlace(new URLSearchParams(route.value.name === "ops" ? location.search : "")));

/** Go to an address of the page. */
export function visit(url: string): void {
  history.pushState(null, "", url);
  route.value = read(location);
}

/** Return the address of a part of the operators' view. */
export function placeAddress(to: Partial<Place>): string {
  return address({ name: "ops" }) + placeQuery(to);
}

type Anchor = Pick<JSX.IntrinsicElements["a"], "class" | "aria-label" | "aria-current" | "children">;

/** A link to a part of the operators' view. */
export function To({ place: to, ...rest }: { place: Partial<Place> } & Anchor) {
  return <Inside href={placeAddress(to)} {...rest} />;
}

/** A link to an address of the page. */
export function Inside({ href, ...rest }: { href: string } & Anchor) {
  return <a {...rest} href={href} onClick={(event) => follow(event, () => visit(href))} />;
}

/** A link to a task by its id, of which the beginning is seen. */
export function TaskLink({ task }: { task: OpsTask }) {
  return (
    <Inside href={address({ name: "ops", task: task.taskId })}>
      <code class="ops-id" dir="ltr">{task.taskId}</code>
    </Inside>
  );
}

/** The state of a task, with its colour. */
export function StateMark({ state }: { state: OpsState }) {
  return <span class="ops-state" data-state={state}>{strings.ops.states[state]}</span>;
}
