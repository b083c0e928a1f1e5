/** The details of the open session, beside the conversation: its tasks, its artifacts, its events. */

import "../../style/panel.css";
import { panel, type Panel as Part } from "../../state";
import { strings } from "../../strings";
import { Icon, IconButton } from "../icons";
import { Artifacts } from "./artifacts";
import { Events } from "./events";
import { Tasks } from "./tasks";

const PARTS: readonly Part[] = ["tasks", "artifacts", "events"];

/** Show the part of the panel that is open; nothing while it is closed. */
export function Panel() {
  const shown = panel.value;
  if (!shown) return null;
  const walk = (event: KeyboardEvent) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const way = getComputedStyle(event.currentTarget as Element).direction === "rtl" ? -step : step;
    panel.value = PARTS[(PARTS.indexOf(shown) + way + PARTS.length) % PARTS.length]!;
    (event.currentTarget as Element).querySelectorAll<HTMLElement>("[role=tab]")[PARTS.indexOf(panel.value)]?.focus();
  };
  return (
    <section class="panel" aria-label={strings.panel.details}>
      <header class="panel-head">
        <div role="tablist" aria-label={strings.panel.details} class="tabs" onKeyDown={walk}>
          {PARTS.map((part) => (
            <button
              key={part}
              id={`tab-${part}`}
              type="button"
              role="tab"
              aria-selected={part === shown}
              aria-controls="panel-part"
              tabIndex={part === shown ? 0 : -1}
              onClick={() => (panel.value = part)}
            >
              <Icon name={part} size={16} />
              {strings.panel.parts[part]}
            </button>
          ))}
        </div>
        <IconButton icon="close" label={strings.panel.close} onClick={() => (panel.value = null)} />
      </header>
      <div id="panel-part" class={`panel-part ${shown}`} role="tabpanel" aria-labelledby={`tab-${shown}`}>
        {shown === "tasks" ? <Tasks /> : shown === "artifacts" ? <Artifacts /> : <Events />}
      </div>
    </section>
  );
}

/** A sentence for a part that has nothing to show yet. */
export function Nothing({ icon, text }: { icon: Part; text: string }) {
  return (
    <div class="nothing">
      <Icon name={icon} size={28} />
      <p>{text}</p>
    </div>
  );
}
