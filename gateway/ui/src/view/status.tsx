/** What goes on at the end of the conversation: the work of the agent, in one line, and a rewind that can be undone. */

import { useEffect, useState } from "preact/hooks";
import { mayWrite, view } from "../state";
import { strings } from "../strings";
import { undo } from "./acts";
import { duration } from "./format";
import { Button, Icon } from "./icons";

const WORDS_MS = 600;
const ELAPSED_MS = 10_000;
const LEAVE_MS = 60_000;

/** Show one line while a task runs: after 0.6 s words, after 10 s the time, after 60 s that one may leave. */
export function Progress() {
  const running = view.value?.running ?? null;
  const [seen, setSeen] = useState({ id: "", at: 0 });
  const [now, setNow] = useState(0);
  const id = running?.id ?? "";
  useEffect(() => {
    if (!id) return;
    setSeen({ id, at: Date.now() });
    setNow(Date.now());
    const soon = setTimeout(() => setNow(Date.now()), WORDS_MS);
    const ticks = setInterval(() => setNow(Date.now()), 1000);
    return () => {
      clearTimeout(soon);
      clearInterval(ticks);
    };
  }, [id]);
  if (!running || seen.id !== id || now - seen.at < WORDS_MS) return <div class="progress" />;
  const begun = Date.parse(running.createdAt);
  const elapsed = Math.max(now - seen.at, Number.isNaN(begun) ? 0 : now - begun);
  const told = view.value?.progress || (running.state === "submitted" ? strings.chat.waiting : strings.chat.working);
  return (
    <div class="progress" data-progress={running.state}>
      <span class="spinner" />
      <span class="words" dir="auto" role="status">{view.value?.stopping ? strings.chat.stopping : told}</span>
      {elapsed >= ELAPSED_MS && <span class="elapsed">{duration(elapsed)}</span>}
      {elapsed >= LEAVE_MS && <span class="elapsed">{strings.chat.still}</span>}
    </div>
  );
}

/** Offer to undo the last rewind, for as long as the server accepts it. */
export function UndoStrip() {
  const open = view.value;
  if (!open?.canUndo || !mayWrite.value) return null;
  return (
    <div class="undo-strip" role="status">
      <Icon name="rewind" size={16} />
      <span>{strings.chat.rewound}</span>
      <Button kind="small" label={strings.chat.undoRewind} disabled={open.rewinding} act={() => void undo()} />
    </div>
  );
}
