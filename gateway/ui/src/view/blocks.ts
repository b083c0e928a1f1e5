/** The blocks of a markdown text. While a text grows, only its last blocks are read again. */

import { Lexer, type Token } from "marked";
import { isPicture } from "../model/preview";

export type Blocks = Readonly<{ text: string; tokens: readonly Token[] }>;

/** How many blocks at the end of a text may still change when more text comes: a list and the space after it. */
const OPEN = 2;
/** A longer text is shown as it is: reading it would hold up the page for seconds. */
const LONGEST = 250_000;
/** A block with more words, items or rows side by side is shown as it is: the time that a browser takes grows with its square. */
const MOST = 4_000;
const TILDES = 1_000;
const WORD = 8_000;
/** Levels of tokens and lists of them; 50 lists in one another have so many. */
const DEEPEST = 200;

/** Read a text. With `before`, what was read of a beginning of it, the finished blocks keep their identity. */
export function blocksOf(given: string, before?: Blocks): Blocks {
  const text = given.replace(/\r\n?/g, "\n");
  if (before?.text === text) return before;
  const kept = before && text.startsWith(before.text) ? before.tokens.slice(0, -OPEN) : [];
  const at = kept.reduce((sum, token) => sum + token.raw.length, 0);
  return { text, tokens: [...kept, ...tokensOf(text.slice(at))] };
}

function tokensOf(text: string): Token[] {
  // What the patterns of the lexer look at again and again makes it slow.
  const hard = text.length > LONGEST || text.split("~").length > TILDES || text.split(/\s/).some(({ length }) => length > WORD);
  try {
    if (!hard)
      return Lexer.lex(text, { gfm: true, breaks: true }).map((token) => (crowded(token) ? plain(token.raw) : token));
  } catch {
    // It is nested more deeply than the lexer can follow.
  }
  return [plain(text)];
}

function plain(text: string): Token {
  return { type: "code", raw: text, text };
}

function crowded(part: unknown, level = 0): boolean {
  if (typeof part !== "object" || !part) return false;
  if (level > DEEPEST || (Array.isArray(part) && part.length > MOST)) return true;
  return Object.values(part).some((one) => crowded(one, level + 1));
}

/** Return the address of a link if it leads to a page, a mail or a place in this page; else undefined. */
export function safeLink(href: string): string | undefined {
  const base = "https://relative.invalid/";
  return URL.canParse(href, base) && ["http:", "https:", "mailto:"].includes(new URL(href, base).protocol) ? href : undefined;
}

/** Tell whether an address is an image in itself, of a type that is shown: nothing is loaded for it. */
export function isPictureAddress(href: string): boolean {
  const [, type = ""] = /^data:([^;,]*);base64,/i.exec(href) ?? [];
  return isPicture(type);
}

/** Return a text with its character references replaced, such as `&amp;`. */
export function decoded(text: string): string {
  return text.replace(/&#?\w{1,31};/g, (one) => new DOMParser().parseFromString(one, "text/html").documentElement.textContent);
}
