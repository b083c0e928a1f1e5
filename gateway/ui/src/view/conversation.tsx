/** The rows of the open session, and what a screen reader hears of new ones. Loaded beside the rest of the page. */

import { useEffect, useRef, useState } from "preact/hooks";
import type { SessionView } from "../model/view";
import { session } from "../state";
import { strings } from "../strings";
import { List } from "./list";

/** Show the rows of a session, older ones as they are scrolled to. */
export function Rows({ open }: { open: SessionView }) {
  return (
    <>
      <List key={session.value} open={open} />
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
    if (known.current && key !== known.current && last?.kind === "message")
      setWords(strings.chat.agentOf(last.message.text.slice(0, 500)));
    known.current = key || "none";
  }, [key]);
  return <div class="sr-only" role="status" aria-live="polite">{words}</div>;
}
