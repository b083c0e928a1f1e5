/** Colours for code, in a part of the page that is loaded with the first code that is shown. */

import hljs from "highlight.js/lib/common";
import dockerfile from "highlight.js/lib/languages/dockerfile";
import type { ComponentChildren } from "preact";

hljs.registerLanguage("dockerfile", dockerfile);

/** Return the code as coloured elements; null if the language is not known. */
export function highlight(text: string, language: string): ComponentChildren {
  if (!hljs.getLanguage(language)) return null;
  const { value } = hljs.highlight(text, { language, ignoreIllegals: true });
  return elements(new DOMParser().parseFromString(`<pre>${value}</pre>`, "text/html").body.firstChild);
}

/** Rebuild spans and texts, and nothing else, from the document that the highlighter's answer was read as. */
function elements(node: Node | null): ComponentChildren[] {
  return Array.from(node?.childNodes ?? [], (child) =>
    child instanceof HTMLElement ? <span class={child.className}>{elements(child)}</span> : child.textContent,
  );
}
