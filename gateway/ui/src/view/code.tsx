/** Blocks of code: coloured once they are quiet, and in short where they are long. */

import type { ComponentChildren } from "preact";
import { useEffect, useId, useRef, useState } from "preact/hooks";
import { strings } from "../strings";
import { copy } from "./acts";
import { Act, IconButton } from "./controls";
import { lazily } from "./parts";

/** How long a text must have been shown unchanged before it is coloured: rows that are scrolled past stay plain. */
const QUIET_MS = 120;
/** Longer code stays plain: colouring it would hold up the page. */
const LONGEST = 60_000;
/** So many lines of long code are shown at first. Fewer than those of `LONG` more are not worth a button. */
const SHOWN = 24;
const LONG = 8;

/** The codes that the reader has opened: a row that is scrolled out of view and back is as it was left. */
const opened = new Set<string>();

/** A block of code. What is copied is all of it. Colours of its beginning stay while it grows, so that nothing flashes. */
export function CodeBlock({ text, language }: { text: string; language: string }) {
  const [all, setAll] = useState(() => opened.has(text));
  const id = useId();
  const figure = useRef<HTMLElement>(null);
  const lines = text.split("\n");
  const long = lines.length > SHOWN + LONG;
  const shown = long && !all ? lines.slice(0, SHOWN).join("\n") : text;
  const coloured = useColours(shown, language);
  const kept = shown.startsWith(coloured.text);
  const toggle = () => {
    if (all) opened.delete(text);
    else opened.add(text);
    setAll(!all);
    // The button keeps the focus, and goes up with the end of the code.
    if (all) setTimeout(() => figure.current?.scrollIntoView({ block: "nearest" }));
  };
  return (
    <figure class="code" dir="ltr" ref={figure} data-long={long || undefined}>
      <figcaption>
        <span>{language || strings.chat.code}</span>
        <IconButton icon="copy" label={strings.chat.copy} size={15} onClick={() => void copy(text)} />
      </figcaption>
      <pre id={id} tabIndex={0}><code>{kept && coloured.tree}{kept ? shown.slice(coloured.text.length) : shown}</code></pre>
      {long && (
        <p class="more">
          <Act label={all ? strings.chat.showLess : strings.chat.showAll(lines.length)} aria-expanded={all} aria-controls={id} act={toggle} />
        </p>
      )}
    </figure>
  );
}

/** Return a beginning of the code with its colours. */
function useColours(text: string, language: string): { text: string; tree: ComponentChildren } {
  const [coloured, setColoured] = useState<{ text: string; tree: ComponentChildren }>({ text: "", tree: null });
  useEffect(() => {
    if (!language || text.length > LONGEST) return;
    const timer = setTimeout(async () => {
      const tree = (await lazily(() => import("./highlight")))?.highlight(text, language);
      if (tree) setColoured({ text, tree });
    }, QUIET_MS);
    return () => clearTimeout(timer);
  }, [text, language]);
  return coloured;
}
