/**
 * Markdown as elements of the page, from the first token on. Every text comes from an agent: elements are made one by
 * one from what the lexer read, never from a string of HTML, so that nothing in it can become markup or run.
 */

import type { ComponentChildren } from "preact";
import { useMemo, useRef } from "preact/hooks";
import type { Token, Tokens } from "marked";
import { strings } from "../strings";
import { type Blocks, blocksOf, decoded, known, safeLink } from "./blocks";
import { CodeBlock } from "./code";

/** Show a text; `live` while it grows. */
export function Markdown({ text, live = false }: { text: string; live?: boolean }) {
  const last = useRef<Blocks | undefined>(undefined);
  const blocks = blocksOf(text, live ? last.current : last.current?.text === text ? last.current : undefined);
  last.current = blocks;
  return <div class="prose">{blocks.tokens.map((token, index) => <Block key={index} token={token} raw={token.raw} />)}</div>;
}

/** One block, made anew only if its text changed. */
function Block({ token, raw }: { token: Token; raw: string }) {
  return useMemo(() => element(token), [raw, token.type]);
}

function children(tokens: readonly Token[] | undefined): ComponentChildren[] {
  return (tokens ?? []).map(element);
}

function element(given: Token): ComponentChildren {
  const token = known(given);
  switch (token.type) {
    case "space":
    case "def":
      return null;
    case "paragraph":
      return <p dir="auto">{children(token.tokens)}</p>;
    case "heading":
      return heading(token);
    case "code":
      return <CodeBlock text={token.text} language={/^\S*/.exec(token.lang ?? "")![0]} />;
    case "blockquote":
      return <blockquote dir="auto">{children(token.tokens)}</blockquote>;
    case "list":
      return list(token);
    case "table":
      return table(token);
    case "hr":
      return <hr />;
    case "br":
      return <br />;
    case "strong":
      return <strong>{children(token.tokens)}</strong>;
    case "em":
      return <em>{children(token.tokens)}</em>;
    case "del":
      return <del>{children(token.tokens)}</del>;
    case "codespan":
      return <code dir="ltr">{token.text}</code>;
    case "link":
      return link(token.href, token.title, children(token.tokens));
    case "image":
      return link(token.href, token.title, strings.chat.imageLink(token.text || token.href));
    case "checkbox":
      return <input type="checkbox" checked={token.checked} disabled aria-label={token.raw} />;
    case "text":
      return token.tokens ? children(token.tokens) : decoded(token.text);
    case "escape":
      return token.text;
    case "html":
      return /^<br\s*\/?>$/i.test(token.raw.trim()) ? <br /> : token.block ? <p dir="auto">{token.raw}</p> : token.raw;
    default:
      return given.raw;
  }
}

function heading(token: Tokens.Heading) {
  const Level = `h${Math.min(6, token.depth + 1)}` as "h2";
  return <Level class={`h${token.depth}`} dir="auto">{children(token.tokens)}</Level>;
}

function list(token: Tokens.List) {
  const items = token.items.map((item, index) => (
    <li key={index} dir="auto" class={item.task ? "task" : undefined}>{children(item.tokens)}</li>
  ));
  return token.ordered ? <ol start={token.start === "" ? 1 : token.start}>{items}</ol> : <ul>{items}</ul>;
}

function table(token: Tokens.Table) {
  const cell = (one: Tokens.TableCell, Name: "td" | "th") => (
    <Name dir="auto" style={one.align ? { textAlign: one.align } : undefined}>{children(one.tokens)}</Name>
  );
  return (
    <div class="table" tabIndex={0} role="group">
      <table>
        <thead><tr>{token.header.map((one) => cell(one, "th"))}</tr></thead>
        <tbody>{token.rows.map((row, index) => <tr key={index}>{row.map((one) => cell(one, "td"))}</tr>)}</tbody>
      </table>
    </div>
  );
}

function link(href: string, title: string | null | undefined, content: ComponentChildren) {
  const safe = safeLink(href);
  if (!safe) return <span title={href}>{content}</span>;
  return <a href={safe} title={title ?? undefined} target="_blank" rel="noopener noreferrer nofollow">{content}</a>;
}
