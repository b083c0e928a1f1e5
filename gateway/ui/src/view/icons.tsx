/** Icons of the page: outlines on a grid of 24, in the colour of the text around them. */

import type { ComponentProps } from "preact";

const PATHS = {
  agent: "M12 3v4M7 7h10a2 2 0 0 1 2 2v9a2 2 0 0 1-2 2H7a2 2 0 0 1-2-2V9a2 2 0 0 1 2-2ZM9 12v2M15 12v2M2 13v2M22 13v2",
  alert: "M12 8v5M12 16.5v.01M10.3 3.9 2.4 17.6A2 2 0 0 0 4.1 20.6h15.8a2 2 0 0 0 1.7-3L13.7 3.9a2 2 0 0 0-3.4 0Z",
  artifacts: "m12 3 8 4.5v9L12 21l-8-4.5v-9L12 3ZM4 7.5l8 4.5 8-4.5M12 12v9",
  attach: "m20 11.5-8.2 8.2a5 5 0 0 1-7.1-7.1l8.5-8.5a3.3 3.3 0 0 1 4.7 4.7l-8.5 8.5a1.7 1.7 0 0 1-2.4-2.4l7.9-7.8",
  canceled: "M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18ZM6 6l12 12",
  check: "m5 12.5 4.5 4.5L19 7",
  chevron: "m9 6 6 6-6 6",
  close: "M6 6l12 12M18 6 6 18",
  copy: "M9 9h10a1 1 0 0 1 1 1v10a1 1 0 0 1-1 1H9a1 1 0 0 1-1-1V10a1 1 0 0 1 1-1ZM16 5V4a1 1 0 0 0-1-1H5a1 1 0 0 0-1 1v10a1 1 0 0 0 1 1",
  dark: "M20 14.5A8.5 8.5 0 0 1 9.5 4a8.5 8.5 0 1 0 10.5 10.5Z",
  down: "M12 5v14M6 13l6 6 6-6",
  download: "M12 4v11M7 11l5 5 5-5M4 20h16",
  events: "M4 6h16M4 12h10M4 18h13",
  file: "M14 3H7a2 2 0 0 0-2 2v14a2 2 0 0 0 2 2h10a2 2 0 0 0 2-2V8l-5-5ZM14 3v5h5",
  key: "M14.5 3.5a6 6 0 0 0-5.7 7.9L3 17.2V21h4v-3h3v-3l1.7-1.3A6 6 0 1 0 14.5 3.5ZM16.5 8v.01",
  keyboard: "M4 6h16a2 2 0 0 1 2 2v8a2 2 0 0 1-2 2H4a2 2 0 0 1-2-2V8a2 2 0 0 1 2-2ZM6 10v.01M10 10v.01M14 10v.01M18 10v.01M8 14h8",
  light: "M12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8ZM12 2v2M12 20v2M2 12h2M20 12h2M5 5l1.4 1.4M17.6 17.6 19 19M5 19l1.4-1.4M17.6 6.4 19 5",
  link: "M10 13a4.5 4.5 0 0 0 6.6.5l3-3a4.5 4.5 0 0 0-6.4-6.4l-1.5 1.5M14 11a4.5 4.5 0 0 0-6.6-.5l-3 3a4.5 4.5 0 0 0 6.4 6.4l1.5-1.5",
  menu: "M4 6h16M4 12h16M4 18h16",
  operations: "M4 20V10M10 20V4M16 20v-7M22 20H2",
  pencil: "m15 5 4 4M4 20l1-5L16.5 3.5a2.1 2.1 0 0 1 3 3L8 18l-4 2Z",
  plus: "M12 5v14M5 12h14",
  question: "M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18ZM9.5 9.2a2.6 2.6 0 1 1 3.6 2.5c-.7.3-1.1.8-1.1 1.6M12 16.5v.01",
  reply: "m9 7-5 5 5 5M4 12h10a6 6 0 0 1 6 6",
  rewind: "M4 4v6h6M4.6 10A8.5 8.5 0 1 1 4 14.5",
  search: "M11 4a7 7 0 1 0 0 14 7 7 0 0 0 0-14ZM20 20l-4-4",
  send: "M12 19V5M6 11l6-6 6 6",
  stop: "M7 7h10v10H7z",
  system: "M5 4h14a2 2 0 0 1 2 2v9a2 2 0 0 1-2 2H5a2 2 0 0 1-2-2V6a2 2 0 0 1 2-2ZM9 21h6M12 17v4",
  tasks: "M4 6h9M4 12h14M4 18h6M17 6h3M14 18h6",
  tool: "M14.7 6.3a4.5 4.5 0 0 0-6 5.6L3.5 17a2.1 2.1 0 0 0 3 3l5.2-5.2a4.5 4.5 0 0 0 5.6-6L14.5 11.5 12 11l-.5-2.5 3.2-2.2Z",
  trash: "M4 7h16M9 7V4h6v3M6 7l1 13h10l1-13M10 11v5M14 11v5",
  upload: "M12 15V4M7 8l5-5 5 5M4 20h16",
} as const;

export type IconName = keyof typeof PATHS;

/** Draw an icon. It says nothing to a screen reader: the control around it has the name. */
export function Icon({ name, size = 18 }: { name: IconName; size?: number }) {
  return (
    <svg class="icon" data-icon={name} width={size} height={size} viewBox="0 0 24 24" aria-hidden="true">
      <path d={PATHS[name]} />
    </svg>
  );
}

type Native = Omit<ComponentProps<"button">, "class" | "label">;
type Given = Native & { label: string; icon?: IconName; size?: number; class?: string };

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
