/** One record: its JSON, and how to get it again. */

import { useMemo } from "preact/hooks";
import { curl } from "../../model/snippets";
import type { WireRecord } from "../../model/view";
import { config } from "../../state";
import { strings } from "../../strings";
import { Act } from "../controls";
import { copy } from "../copy";
import { IconButton } from "../icons";
import type { Given } from "./inspector";

const MOST = 200_000;

/** Show a record. */
export function RecordDetails({ record, call, link, close }: Pick<Given, "call" | "link"> & { record: WireRecord; close: () => void }) {
  const json = useMemo(() => JSON.stringify(record.body, null, 2) ?? "", [record]);
  const command = () => curl(call(record), config.value?.auth.required ?? false);
  return (
    <section class="record" aria-label={strings.panel.record(record.number)}>
      <header>
        <h2>{strings.panel.record(record.number)}</h2>
        <small>{[record.kind, record.cursor].filter(Boolean).join(" · ")}</small>
        <IconButton icon="close" label={strings.panel.closeRecord} size={16} onClick={close} />
      </header>
      <div class="acts">
        <Act label={strings.panel.copyJson} act={() => void copy(json)} />
        <Act label={strings.panel.copyCurl} act={() => void copy(command())} />
        {link && <Act label={strings.chat.copyLink} act={() => void copy(link(record))} />}
      </div>
      <pre class="sheet" tabIndex={0} dir="ltr">{json.length > MOST ? `${json.slice(0, MOST)}\n${strings.panel.cutRecord}` : json}</pre>
    </section>
  );
}
