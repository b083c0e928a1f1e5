/** The rows of a conversation, loaded beside the rest of the page: only those in view are in it, and the end is followed. */

import { Virtualizer, type VirtualizerOptions, elementScroll, observeElementOffset, observeElementRect } from "@tanstack/virtual-core";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import type { SessionView } from "../model/followed";
import type { Row, TaskInfo } from "../model/view";
import { route, session } from "../state";
import { strings } from "../strings";
import { sent } from "./acts";
import { Icon } from "./controls";
import { aloud, nameOf } from "./format";
import { RowView, asks } from "./rows";

/** Within so many pixels of the end the list follows it. */
const AT_END = 64;
/** Pixels between rows. */
const GAP = 26;
/** Within so many pixels of the first loaded row older ones are asked for. */
const NEAR_START = 1000;

/** Tell a screen reader of what is new at the end, once, when it is whole. */
function Announcer({ rows, running }: Pick<SessionView, "rows" | "running">) {
  const [told] = useState(() => new Set(rows.filter((row) => spoken(row, running)).map(({ key }) => key)));
  const [words, setWords] = useState<readonly string[]>([]);
  useEffect(() => {
    const news = rows.slice(rows.findLastIndex(({ key }) => told.has(key)) + 1).filter((row) => spoken(row, running));
    for (const row of news) told.add(row.key);
    if (news.length) setWords(news.map((row) => spoken(row, running)));
  }, [rows]);
  return <div class="sr-only" role="status" aria-live="polite"><p key={words}>{words.join(" ")}</p></div>;
}

/** Return what a screen reader says of a row; empty: nothing, as of what the user said, still grows or was loaded later. */
function spoken(row: Row, running: TaskInfo | null): string {
  if (row.kind === "message") return row.message.role === "agent" && !row.live ? strings.chat.agentOf(aloud(row.message.text)) : "";
  if (row.kind === "question") return `${asks(row.task)}: ${aloud(row.message?.text ?? "")}`;
  if (row.kind === "artifact") return row.artifact.taskId === running?.id ? `${strings.chat.artifact}: ${nameOf(row.artifact)}` : "";
  // A failure is an alert.
  return row.kind === "end" && row.task.state !== "failed" ? strings.states[row.task.state] : "";
}

/** Show the rows of a session in a scrolled log, with a button for what came below while the reader was elsewhere. */
export function Rows({ rows, running, loadingOlder }: SessionView) {
  const target = route.value.message;
  const box = useRef<HTMLDivElement>(null);
  const [, redraw] = useState({});
  const options: VirtualizerOptions<HTMLDivElement, HTMLDivElement> = {
    count: rows.length,
    getScrollElement: () => box.current,
    estimateSize: (index) => estimate(rows[index]),
    getItemKey: (index) => rows[index]?.key ?? index,
    observeElementRect: (log, tell) =>
      // What lies below the list may grow and take room from it: its end stays in view then.
      observeElementRect(log, (rect) => {
        const follows = log.scrollRect && log.getTotalSize() - log.scrollRect.height - (log.scrollOffset ?? 0) <= AT_END;
        tell(rect);
        if (follows) log.scrollToEnd();
      }),
    observeElementOffset,
    scrollToFn: elementScroll,
    onChange: () => redraw({}),
    overscan: 4,
    // Between rows, and after the last one, there is room for the actions of a message, which stand there.
    gap: GAP,
    paddingStart: 8,
    paddingEnd: GAP + 4,
    anchorTo: "end",
    scrollEndThreshold: AT_END,
  };
  const [list] = useState(() => new Virtualizer(options));
  // Artifacts that are loaded later come between others.
  const follows = list.isAtEnd();
  list.setOptions(options);
  useLayoutEffect(() => list._didMount(), []);
  useLayoutEffect(() => list._willUpdate());

  const found = target ? rows.findIndex((row) => row.key === target) : -1;
  useLayoutEffect(() => list.scrollToEnd(), [sent.value]);
  useLayoutEffect(() => {
    if (follows) list.scrollToEnd();
  }, [rows.length]);
  useLayoutEffect(() => {
    if (found >= 0) list.scrollToIndex(found, { align: "center" });
  }, [target, found >= 0]);
  const look = () => {
    if (box.current!.scrollTop < NEAR_START || (target && found < 0)) void session.value?.older();
  };
  useEffect(look, [rows[0]?.key, target, found < 0]);

  // How many rows came below the last one that was there when the reader was at the end.
  const seen = useRef("");
  const atEnd = list.isAtEnd();
  if (atEnd || !seen.current) seen.current = rows.at(-1)?.key ?? "";
  const last = rows.findLastIndex((row) => row.key === seen.current);
  const below = last >= 0 && last < rows.length - 1 && strings.chat.newBelow(rows.length - 1 - last);
  return (
    <div class="log-frame">
      <div class="log" role="log" aria-live="off" aria-label={strings.chat.messages} tabIndex={0} ref={box} onScroll={look}>
        {loadingOlder && <p class="older" role="status">{strings.chat.loadingOlder}</p>}
        <div class="log-space" style={{ height: `${list.getTotalSize()}px` }}>
          {list.getVirtualItems().map(({ key, index, start }) => (
            <div key={key} class="log-item" data-index={index} data-marked={index === found || undefined}
              ref={list.measureElement} style={{ transform: `translateY(${start}px)` }}>
              <RowView row={rows[index]!} />
            </div>
          ))}
        </div>
      </div>
      <Announcer rows={rows} running={running} />
      {!atEnd && (
        <button type="button" class="to-end" aria-label={below || strings.chat.toEnd} onClick={() => list.scrollToEnd()}>
          {below && <span>{below}</span>}
          <Icon name="down" size={16} />
        </button>
      )}
    </div>
  );
}

function estimate(row: Row | undefined): number {
  if (row?.kind === "message") return 28 + Math.ceil(row.message.text.length / 80) * 24;
  return row?.kind === "tools" ? 44 : 76;
}
