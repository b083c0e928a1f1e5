/** Icons of the page, of Lucide: outlines on a grid of 24, in the colour of the text around them. */

import {
  ArrowDown, ArrowUp, Ban, Bot, Box, ChartNoAxesColumn, Check, ChevronRight, CircleQuestionMark, Copy, Download, File, History, KeyRound,
  Keyboard, Link, ListChecks, Menu, Monitor, Moon, Paperclip, Pencil, Plus, Reply, ScrollText, Search, Square, Sun, Trash2, TriangleAlert,
  Upload, Wrench, X,
} from "lucide";
import { type ComponentProps, h } from "preact";

const ICONS = {
  agent: Bot, alert: TriangleAlert, artifacts: Box, attach: Paperclip, canceled: Ban, check: Check, chevron: ChevronRight, close: X,
  copy: Copy, dark: Moon, down: ArrowDown, download: Download, events: ScrollText, file: File, key: KeyRound, keyboard: Keyboard,
  light: Sun, link: Link, menu: Menu, operations: ChartNoAxesColumn, pencil: Pencil, plus: Plus, question: CircleQuestionMark,
  reply: Reply, rewind: History, search: Search, send: ArrowUp, stop: Square, system: Monitor, tasks: ListChecks, tool: Wrench,
  trash: Trash2, upload: Upload,
} as const;


export type IconName = keyof typeof ICONS;

/** Draw an icon. It says nothing to a screen reader: the control around it has the name. */
export function Icon({ name, size = 18 }: { name: IconName; size?: number }) {
  return (
    <svg class="icon" data-icon={name} width={size} height={size} viewBox="0 0 24 24" aria-hidden="true">
      {ICONS[name].map(([shape, of], key) => h(shape, { key, ...of }))}
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
