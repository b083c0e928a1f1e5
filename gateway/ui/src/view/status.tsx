/** What goes on at the end of the conversation: the work of the agent, in one line, and a rewind that can be undone. */

import { useState } from "preact/hooks";
import type { TaskInfo } from "../model/view";
import { api, mayWrite, view } from "../state";
import { strings } from "../strings";
import { undo } from "./acts";
import { useEvery } from "./controls";
import { duration } from "./format";
import { Button, Icon } from "./icons";

const WORDS_MS = 600;
const ELAPSED_MS = 10_000;
const LEAVE_MS = 60_000;

/** Show one line while a task runs: after 0.6 s words, after 10 s the time, after 60 s that one may leave. */
export function Progress() {
  const running = view.value?.running;
  return running ? <Running key={running.id} {...running} /> : <div class="progress" />;
}

function Running({ state, createdAt }: TaskInfo) {
  const [seen] = useState(api.now);
  const [now, setNow] = useState(seen);
  const waits = now - seen < WORDS_MS;
  useEvery(waits ? WORDS_MS : 1000, () => setNow(api.now()));
  if (waits) return <div class="progress" />;
  const elapsed = now - Math.min(seen, Date.parse(createdAt) || seen);
  const told = view.value?.progress || strings.states[state === "submitted" ? state : "working"];
  return (
    <div class="progress" data-progress={state}>
      <span class="spinner" />
      <span class="words" dir="auto" role="status">{view.value?.stopping ? strings.chat.stopping : told}</span>
      {elapsed >= ELAPSED_MS && <span class="elapsed">· {duration(elapsed)}{elapsed >= LEAVE_MS && ` · ${strings.chat.still}`}</span>}
    </div>
  );
}

/** Offer to undo the last rewind, for as long as the server accepts it. */
export function UndoStrip() {
  const open = view.value;
  if (!open?.canUndo || !mayWrite.value) return null;
  const last = open.rows.findLast((row) => row.kind === "message")?.message.taskId;
  const over = last && open.tasks.every(({ id }) => id !== last);
  return (
    <div class="undo-strip" role="status">
      <Icon name="rewind" size={16} />
      <span>{strings.chat.rewound} {over && strings.chat.taskOver}</span>
      <Button kind="small" label={strings.chat.undoRewind} disabled={open.rewinding} act={() => void undo()} />
    </div>
  );
}
