/** The blocks of a markdown text. While a text grows, only its last blocks are read again. */

import { Lexer, type Token } from "marked";

export interface Blocks {
  readonly text: string;
  readonly tokens: readonly Token[];
}

/** How many blocks at the end of a text may still change when more text comes: a list and the space after it. */
const OPEN = 2;
/** A longer text is shown as it is: reading it would hold up the page for seconds. */
const LONGEST = 250_000;
/** A block with more words, items or rows side by side is shown as it is: the time that a browser takes grows with its square. */
const MOST = 4_000;
const TILDES = 1_000;
const WORD = 8_000;
/** A line that is nested more deeply than anybody can read. */
const DEEP = /^(?:[ \t]*(?:>|(?:[-*+]|\d+[.)])[ \t])){100}/m;

/** Read a text. With `before`, what was read of a beginning of it, the finished blocks keep their identity. */
export function blocksOf(given: string, before?: Blocks): Blocks {
  const text = given.replace(/\r\n?/g, "\n");
  if (before?.text === text) return before;
  const kept = before && text.startsWith(before.text) ? before.tokens.slice(0, -OPEN) : [];
  const at = kept.reduce((sum, token) => sum + token.raw.length, 0);
  return { text, tokens: [...kept, ...tokensOf(text.slice(at))] };
}

function tokensOf(text: string): Token[] {
  try {
    if (!isHard(text))
      return Lexer.lex(text, { gfm: true, breaks: true }).map((token) => (crowded(token) ? plain(token.raw) : token));
  } catch {
    // It is nested more deeply than the lexer can follow.
  }
  return [plain(text)];
}

/** Return whether the lexer would take seconds: what its patterns look at again and again makes it slow. */
function isHard(text: string): boolean {
  const words = text.split(/\s/);
  return text.length > LONGEST || DEEP.test(text) || text.split("~").length > TILDES || words.some(({ length }) => length > WORD);
}

function plain(text: string): Token {
  return { type: "code", raw: text, text };
}

function crowded(part: unknown): boolean {
  if (typeof part !== "object" || !part) return false;
  return (Array.isArray(part) && part.length > MOST) || Object.values(part).some(crowded);
}

/** Return the address of a link if it leads to a page, a mail or a place in this page; else undefined. */
export function safeLink(href: string): string | undefined {
  const base = "https://relative.invalid/";
  return URL.canParse(href, base) && ["http:", "https:", "mailto:"].includes(new URL(href, base).protocol) ? href : undefined;
}

/** Return a text with its character references replaced, such as `&amp;`. */
export function decoded(text: string): string {
  if (!text.includes("&")) return text;
  return text.replace(
    /&(?:#\d{1,7}|#x[\da-f]{1,6}|[a-z][a-z\d]{1,31});/gi,
    (one) => new DOMParser().parseFromString(one, "text/html").documentElement.textContent ?? one,
  );
}
