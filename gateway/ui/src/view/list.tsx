/** The rows of a conversation, of which only those in view are in the page. It follows its end while the reader is there. */

import { Virtualizer, elementScroll, observeElementOffset, observeElementRect } from "@tanstack/virtual-core";
import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useMemo, useReducer, useRef, useState } from "preact/hooks";
import type { Row } from "../model/view";
import { strings } from "../strings";
import { Icon } from "./icons";

/** Within so many pixels of the end the list follows it. */
const AT_END = 64;
/** Within so many pixels of the first loaded row older ones are asked for. */
const NEAR_START = 1000;

export interface ListProps {
  readonly rows: readonly Row[];
  readonly render: (row: Row) => ComponentChildren;
  /** Show the end when this changes: the reader sent something. */
  readonly sent: number;
  /** The row to go to, by key; empty: none. */
  readonly target: string;
  readonly onNearStart: () => void;
  readonly before: ComponentChildren;
}

/** Show rows in a scrolled log, with a button for what came below while the reader was elsewhere. */
export function List({ rows, render, sent, target, onNearStart, before }: ListProps) {
  const box = useRef<HTMLDivElement>(null);
  const [, redraw] = useReducer<number, void>((count) => count + 1, 0);
  const [list] = useState(() => new Virtualizer<HTMLDivElement, HTMLDivElement>(options(rows)));
  function options(given: readonly Row[]) {
    return {
      count: given.length,
      getScrollElement: () => box.current,
      estimateSize: (index: number) => estimate(given[index]),
      getItemKey: (index: number) => given[index]?.key ?? index,
      observeElementRect,
      observeElementOffset,
      scrollToFn: elementScroll,
      onChange: () => redraw(),
      overscan: 4,
      gap: 12,
      paddingStart: 8,
      paddingEnd: 24,
      anchorTo: "end" as const,
      followOnAppend: true,
      scrollEndThreshold: AT_END,
      initialRect: { width: 760, height: 800 },
    };
  }
  list.setOptions(options(rows));
  useLayoutEffect(() => list._didMount(), []);
  // What lies below the list may grow and take room from it: its end stays in view then.
  const atEnd = useRef(true);
  useLayoutEffect(() => {
    const sized = new ResizeObserver(() => atEnd.current && list.scrollToEnd());
    if (box.current) sized.observe(box.current);
    return () => sized.disconnect();
  }, []);
  useLayoutEffect(() => list._willUpdate());

  // The first rows, a send and a target each decide once where the list is.
  const placed = useRef(false);
  useLayoutEffect(() => {
    if (placed.current || !rows.length) return;
    placed.current = true;
    if (!target) list.scrollToEnd();
  });
  useLayoutEffect(() => {
    if (sent) list.scrollToEnd();
  }, [sent]);
  const found = target ? rows.findIndex((row) => row.key === target) : -1;
  useLayoutEffect(() => {
    if (found >= 0) list.scrollToIndex(found, { align: "center" });
  }, [target, found >= 0]);
  const items = list.getVirtualItems();
  useEffect(() => {
    const log = box.current;
    if (log && (log.scrollHeight <= log.clientHeight || (target && found < 0))) onNearStart();
  }, [rows[0]?.key, target, found < 0]);
  const scrolled = () => {
    const log = box.current;
    if (!log) return;
    atEnd.current = log.scrollHeight - log.scrollTop - log.clientHeight <= AT_END;
    if (log.scrollTop < NEAR_START) onNearStart();
  };

  const unseen = useUnseen(rows, list.isAtEnd(AT_END));
  const below = unseen > 0 && strings.chat.newBelow(unseen);
  return (
    <div class="log-frame">
      <div class="log" role="log" aria-live="off" aria-label={strings.chat.messages} tabIndex={0} ref={box} onScroll={scrolled}>
        {before}
        <div class="log-space" style={{ height: `${list.getTotalSize()}px` }}>
          {items.map(({ key, index, start }) => (
            <div
              key={key}
              class="log-item"
              data-index={index}
              data-marked={index === found || undefined}
              ref={list.measureElement}
              style={{ transform: `translateY(${start}px)` }}
            >
              <Item row={rows[index]} render={render} />
            </div>
          ))}
        </div>
      </div>
      {!list.isAtEnd(AT_END) && rows.length > 0 && (
        <button type="button" class="to-end" aria-label={below || strings.chat.toEnd} onClick={() => list.scrollToEnd()}>
          {below && <span>{below}</span>}
          <Icon name="down" size={16} />
        </button>
      )}
    </div>
  );
}

/** The content of a row, drawn anew only if the row changed. */
function Item({ row, render }: { row: Row | undefined; render: (row: Row) => ComponentChildren }) {
  return useMemo(() => <>{row && render(row)}</>, [row, render]);
}

/** Return how many rows came below the last one that was there when the reader was at the end. */
function useUnseen(rows: readonly Row[], atEnd: boolean): number {
  const seen = useRef("");
  const last = rows.at(-1)?.key ?? "";
  if (atEnd || !seen.current) seen.current = last;
  if (seen.current === last) return 0;
  const at = rows.findLastIndex((row) => row.key === seen.current);
  return at < 0 ? 0 : rows.length - 1 - at;
}

function estimate(row: Row | undefined): number {
  if (row?.kind === "message") return 56 + Math.ceil(row.message.text.length / 80) * 24;
  return row?.kind === "tools" ? 44 : 76;
}
