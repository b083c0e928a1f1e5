/** Icons of the page, of Lucide: outlines on a grid of 24, in the colour of the text around them. */

import { type ComponentProps, h } from "preact";
import * as glyphs from "./glyphs";

export type IconName = keyof typeof glyphs;

/** Draw an icon. It says nothing to a screen reader: the control around it has the name. */
export function Icon({ name, size = 18 }: { name: IconName; size?: number }) {
  return (
    <svg class="icon" data-icon={name} width={size} height={size} viewBox="0 0 24 24" aria-hidden="true">
      {glyphs[name].map(([shape, of], key) => h(shape, { key, ...of }))}
    </svg>
  );
}

type Given = Omit<ComponentProps<"button">, "class" | "label"> & { label: string; icon?: IconName; size?: number; class?: string };

/** A button with words, and an icon if one is given; `kind` is more of its class. */
export function Button({ label, icon, act, kind = "", ...rest }: Given & { act: () => void; kind?: string }) {
  return (
    <button type="button" class={`button ${kind}`} onClick={act} {...rest}>
      {icon && <Icon name={icon} size={kind === "small" ? 14 : 16} />} {label}
    </button>
  );
}

/** A square button with an icon; `label` is its accessible name, and its tooltip if there is no other. */
export function IconButton({ icon, label, size = 18, class: more = "", ...rest }: Given & { icon: IconName }) {
  return (
    <button type="button" class={`icon-button ${more}`} aria-label={label} title={label} {...rest}>
      <Icon name={icon} size={size} />
    </button>
  );
}
