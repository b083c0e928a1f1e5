/** Links within the operators' view; what is filtered is in the address, so that it can be shared. */

import { computed } from "@preact/signals";
import type { JSX } from "preact";
import { type OpsState, type Place, placeQuery, readPlace } from "../../model/operations";
import { address, read, route } from "../../state";
import { strings } from "../../strings";
import { fullTime, time } from "../format";
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

/** A link to a part of the operators' view, or to another address of the page. */
export function To({ place: to = {}, href = placeAddress(to), ...rest }: { place?: Partial<Place>; href?: string } & Anchor) {
  return <a {...rest} href={href} onClick={(event) => follow(event, () => visit(href))} />;
}

/** A link to a task by its id, of which the beginning is seen. */
export function TaskLink({ id }: { id: string }) {
  return <To href={address({ name: "ops", task: id })}><code class="ops-id" dir="ltr">{id}</code></To>;
}

/** The state of a task, with its colour. */
export function StateMark({ state, children = strings.ops.states[state] }: { state: OpsState; children?: string }) {
  return <span class="ops-state" data-state={state}>{children}</span>;
}

/** A time, shown in short unless it is given in other words. */
export function Moment({ at, children = time(at) }: { at: string; children?: string }) {
  return <time dateTime={at} title={fullTime(at)}>{children}</time>;
}
