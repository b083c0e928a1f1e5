/** A block of code: its language, a button that copies it, and colours once it is seen and does not change. */

import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { strings } from "../strings";
import { copy } from "./copy";
import { IconButton } from "./icons";
import { lazily } from "./lazy";

/** How long a text must not have changed before it is coloured. */
const QUIET_MS = 120;
/** Longer code stays plain: colouring it would hold up the page. */
const LONGEST = 60_000;

/** Show code. Colours of its beginning stay while it grows, so that nothing flashes. */
export function CodeBlock({ text, language }: { text: string; language: string }) {
  const box = useRef<HTMLElement>(null);
  const [coloured, setColoured] = useState<{ text: string; tree: ComponentChildren } | null>(null);
  useEffect(() => {
    if (!language || text.length > LONGEST || coloured?.text === text || !box.current) return;
    let timer = 0;
    const seen = new IntersectionObserver(([entry]) => {
      clearTimeout(timer);
      if (!entry?.isIntersecting) return;
      timer = setTimeout(async () => {
        seen.disconnect();
        const module = await lazily(() => import("./highlight"));
        const tree = module?.highlight(text, language);
        if (tree) setColoured({ text, tree });
      }, QUIET_MS);
    });
    seen.observe(box.current);
    return () => {
      clearTimeout(timer);
      seen.disconnect();
    };
  }, [text, language]);
  const kept = coloured && text.startsWith(coloured.text) ? coloured : null;
  return (
    <figure class="code" dir="ltr">
      <figcaption>
        <span>{language || strings.chat.code}</span>
        <IconButton icon="copy" label={strings.chat.copy} size={15} onClick={() => void copy(text)} />
      </figcaption>
      <pre tabIndex={0}>
        <code ref={box}>
          {kept?.tree}
          {kept ? text.slice(kept.text.length) : text}
        </code>
      </pre>
    </figure>
  );
}
