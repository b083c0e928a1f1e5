/**
 * Markdown as elements of the page, from the first token on. Every text comes from an agent: elements are made one by
 * one from what the lexer read, never from a string of HTML, so that nothing in it can become markup or run.
 */

import { type ComponentChildren, h } from "preact";
import { useMemo, useRef } from "preact/hooks";
import type { MarkedToken, Token, Tokens } from "marked";
import { strings } from "../strings";
import { type Blocks, blocksOf, decoded, isPictureAddress, safeLink } from "./blocks";
import { CodeBlock } from "./code";

/** Show a text; `live` while it grows. */
export function Markdown({ text, live = false }: { text: string; live?: boolean }) {
  const last = useRef<Blocks | undefined>(undefined);
  const blocks = (last.current = blocksOf(text, live || last.current?.text === text ? last.current : undefined));
  return <div class="prose">{blocks.tokens.map((token, index) => <Block key={index} token={token} raw={token.raw} />)}</div>;
}

/** Show a link of an agent if it leads to a page, a mail or a place; else only its words. */
export function Link({ href, ...rest }: { href: string; title?: string | undefined; class?: string; children: ComponentChildren }) {
  const safe = safeLink(href);
  return safe ? <a {...rest} href={safe} target="_blank" rel="noopener noreferrer nofollow" /> : <span {...rest} title={href} />;
}

/** One block, made anew only if its text changed. */
function Block({ token, raw }: { token: Token; raw: string }) {
  return useMemo(() => element(token), [raw, token.type]);
}

function element(token: Token): ComponentChildren {
  const tag = TAGS[token.type];
  if (tag) return h(tag, { dir: "auto" }, inside(token as Tokens.Generic));
  const view = VIEWS[token.type as Kind] as ((token: Token) => ComponentChildren) | undefined;
  return view ? view(token) : token.raw;
}

function inside({ tokens = [] }: { tokens?: Token[] | undefined }): ComponentChildren[] {
  return tokens.map(element);
}

function cell(given: Tokens.TableCell): ComponentChildren {
  const Cell = given.header ? "th" : "td";
  return <Cell dir="auto" style={{ textAlign: given.align ?? undefined }}>{inside(given)}</Cell>;
}

/** The elements of tokens that are no more than that. */
const TAGS: Readonly<Record<string, string>> = {
  paragraph: "p", blockquote: "blockquote", strong: "strong", em: "em", del: "del", hr: "hr", br: "br",
};

type Kind = MarkedToken["type"];

const VIEWS: { readonly [Type in Kind]?: (token: Extract<MarkedToken, { type: Type }>) => ComponentChildren } = {
  space: () => null,
  def: () => null,
  codespan: (token) => <code dir="ltr">{token.text}</code>,
  code: (token) => <CodeBlock text={token.text} language={token.lang?.split(/\s/, 1)[0] ?? ""} />,
  link: (token) => <Link href={token.href} title={token.title ?? undefined}>{inside(token)}</Link>,
  image({ href, title, text }) {
    if (isPictureAddress(href)) return <img class="picture" src={href} alt={text || strings.chat.image} />;
    return <Link href={href} title={title ?? undefined}>{strings.chat.imageLink(text || href)}</Link>;
  },
  checkbox: (token) => <input type="checkbox" checked={token.checked} disabled aria-label={token.raw} />,
  text: (token) => ("tokens" in token && token.tokens ? inside(token) : decoded(token.text)),
  escape: (token) => token.text,
  html: ({ raw, block }) => (/^<br\s*\/?>$/i.test(raw.trim()) ? <br /> : block ? <p dir="auto">{raw}</p> : raw),
  table: ({ header, rows }) => (
    <div class="table" tabIndex={0} role="group">
      <table>
        <thead><tr>{header.map(cell)}</tr></thead>
        <tbody>{rows.map((row) => <tr>{row.map(cell)}</tr>)}</tbody>
      </table>
    </div>
  ),
  heading(token) {
    const Level = `h${Math.min(6, token.depth + 1)}` as "h2";
    return <Level dir="auto">{inside(token)}</Level>;
  },
  list(token) {
    const items = token.items.map((item) => <li dir="auto" class={item.task ? "task" : undefined}>{inside(item)}</li>);
    return token.ordered ? <ol start={token.start === "" ? 1 : token.start}>{items}</ol> : <ul>{items}</ul>;
  },
};
