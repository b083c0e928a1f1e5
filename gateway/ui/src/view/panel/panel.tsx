/** The details of the open session, beside the conversation: its tasks, its artifacts, its events. */

import { PANELS, panel } from "../../state";
import { strings } from "../../strings";
import { Icon, IconButton, walk } from "../controls";
import { Artifacts } from "./artifacts";
import { Events } from "./events";
import { Tasks } from "./tasks";

const PARTS = { tasks: Tasks, artifacts: Artifacts, events: Events };

/** Show the part of the panel that is open; nothing while it is closed. */
export function Panel() {
  const shown = panel.value;
  if (!shown) return null;
  const Shown = PARTS[shown];
  return (
    <section class="panel" aria-label={strings.panel.details}>
      <header class="panel-head">
        <div role="tablist" aria-label={strings.panel.details} onKeyDown={(event) => walk(event, "[role=tab]")}>
          {PANELS.map((part) => {
            const here = part === shown;
            const tab = { id: `tab-${part}`, "aria-selected": here, tabIndex: here ? 0 : -1 };
            return (
              <button key={part} type="button" role="tab" {...tab} onClick={() => (panel.value = part)}>
                <Icon name={part} size={16} /> {strings.panel.parts[part]}
              </button>
            );
          })}
        </div>
        <IconButton icon="close" label={strings.chat.close} onClick={() => (panel.value = null)} />
      </header>
      <div class={`panel-part ${shown}`} role="tabpanel" aria-labelledby={`tab-${shown}`}>
        <Shown />
      </div>
    </section>
  );
}
