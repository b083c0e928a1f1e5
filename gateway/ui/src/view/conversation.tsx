/** The rows of the open session, and what a screen reader hears of new ones. Loaded beside the rest of the page. */

import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import type { SessionView } from "../model/view";
import { route, session } from "../state";
import { strings } from "../strings";
import { sent } from "./acts";
import { List } from "./list";
import { spoken } from "./message";
import { RowView } from "./rows";

/** Show the rows of a session, older ones as they are scrolled to. */
export function Rows({ open }: { open: SessionView }) {
  const older = useCallback(() => void session.value?.older(), []);
  return (
    <>
      <List
        key={session.value}
        rows={open.rows}
        render={RowView}
        sent={sent.value}
        target={route.value.message}
        onNearStart={older}
        before={open.loadingOlder ? <p class="older" role="status">{strings.chat.loadingOlder}</p> : null}
      />
      <Announcer open={open} />
    </>
  );
}

/** Tell a screen reader of each new message of the agent, once, when it is whole. */
function Announcer({ open }: { open: SessionView }) {
  const known = useRef("");
  const [words, setWords] = useState("");
  const last = open.rows.findLast((row) => row.kind === "message" && row.message.role === "agent" && !row.live);
  const key = last?.key ?? "";
  useEffect(() => {
    if (known.current && key !== known.current && last?.kind === "message") setWords(spoken(last.message));
    known.current = key || "none";
  }, [key]);
  return <div class="sr-only" role="status" aria-live="polite">{words}</div>;
}
