/** A small button with an icon and a word. */

import { Icon, type IconName } from "./icons";

export function Act(props: { label: string; act: () => void; icon?: IconName; disabled?: boolean; pressed?: boolean; class?: string }) {
  return (
    <button type="button" class={`button small ${props.class ?? ""}`} disabled={props.disabled} aria-pressed={props.pressed} onClick={props.act}>
      {props.icon && <Icon name={props.icon} size={14} />} {props.label}
    </button>
  );
}
