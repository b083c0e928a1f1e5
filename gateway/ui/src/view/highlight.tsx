/** Colours for code, in a part of the page that is loaded with the first code that is seen. */

import hljs from "highlight.js/lib/core";
import bash from "highlight.js/lib/languages/bash";
import c from "highlight.js/lib/languages/c";
import cpp from "highlight.js/lib/languages/cpp";
import csharp from "highlight.js/lib/languages/csharp";
import css from "highlight.js/lib/languages/css";
import diff from "highlight.js/lib/languages/diff";
import dockerfile from "highlight.js/lib/languages/dockerfile";
import go from "highlight.js/lib/languages/go";
import ini from "highlight.js/lib/languages/ini";
import java from "highlight.js/lib/languages/java";
import javascript from "highlight.js/lib/languages/javascript";
import json from "highlight.js/lib/languages/json";
import kotlin from "highlight.js/lib/languages/kotlin";
import markdown from "highlight.js/lib/languages/markdown";
import python from "highlight.js/lib/languages/python";
import ruby from "highlight.js/lib/languages/ruby";
import rust from "highlight.js/lib/languages/rust";
import sql from "highlight.js/lib/languages/sql";
import typescript from "highlight.js/lib/languages/typescript";
import xml from "highlight.js/lib/languages/xml";
import yaml from "highlight.js/lib/languages/yaml";
import type { ComponentChildren } from "preact";

const LANGUAGES = {
  ...{ bash, c, cpp, csharp, css, diff, dockerfile, go, ini, java, javascript, json },
  ...{ kotlin, markdown, python, ruby, rust, sql, typescript, xml, yaml },
};
for (const [name, language] of Object.entries(LANGUAGES)) hljs.registerLanguage(name, language);

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
