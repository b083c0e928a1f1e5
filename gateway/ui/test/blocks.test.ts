import { describe, expect, it } from "vitest";
import { type Blocks, blocksOf, safeLink } from "../src/view/blocks";
import { accepts, bytes, duration } from "../src/view/format";

const TEXT = `# A title

A paragraph of **two**
lines.

- one

- two
  - of two

  more of two
1. first
2. second

> quoted
still quoted

| a | b |
|---|--:|
| 1 | 2 |

\`\`\`python
def one():

    return 1
\`\`\`

~~~
never closed

- not a list
`;

describe("a text that grows", () => {
  it.each([2, 7, 40])("is read like the whole text, in pieces of %i", (size) => {
    let blocks: Blocks | undefined;
    for (let end = size; end < TEXT.length + size; end += size) {
      const text = TEXT.slice(0, end);
      blocks = blocksOf(text, blocks);
      expect(blocks.tokens, text).toEqual(blocksOf(text).tokens);
    }
  });

  it("keeps the blocks that are finished", () => {
    const before = blocksOf("one\n\ntwo\n\nthree");
    const after = blocksOf("one\n\ntwo\n\nthree and more", before);
    expect(after.tokens[0]).toBe(before.tokens[0]);
    expect(after.tokens.at(-1)).not.toBe(before.tokens.at(-1));
  });

  it("is read anew when it is another text", () => {
    expect(blocksOf("two", blocksOf("one\n\nmore")).tokens).toEqual(blocksOf("two").tokens);
  });
});

it("follows links to pages, mails and places only", () => {
  expect(["https://example.com/a", "mailto:a@example.com", "#below", "docs/a.md"].filter(safeLink)).toHaveLength(4);
  const hostile = ["javascript:alert(1)", " JaVaScRiPt:alert(1)", "java\nscript:alert(1)", "data:text/html,x", "vbscript:x", "file:///etc"];
  expect(hostile.filter(safeLink)).toEqual([]);
});

it("knows by patterns what an agent takes", () => {
  expect(accepts(["text/plain", "image/*"], "image/png")).toBe(true);
  expect(accepts(["text/plain; charset=utf-8"], "text/plain")).toBe(true);
  expect(accepts(["*/*"], "application/zip")).toBe(true);
  expect(accepts(["text/plain", "image/*"], "application/zip")).toBe(false);
});

it("says durations and sizes shortly", () => {
  expect([400, 12_300, 185_000, 7_800_000].map(duration)).toEqual(["0.4 sec", "12 sec", "3 min 5 sec", "2 hr 10 min"]);
  expect([999, 1_500, 999_400, 999_600, 5_000_000].map(bytes)).toEqual(["999 B", "1.50 kB", "999 kB", "1.00 MB", "5.00 MB"]);
});

it.each(["*a* ", "[a](b) ", "`a` ", "a\n", "- a\n", "|a|b|\n"])("a block of very many parts like %j is shown as it is", (part) => {
  const head = part.startsWith("|") ? "|a|b|\n|-|-|\n" : "";
  const crowd = (head + part.repeat(5_000)).trim();
  const some = (head + part.repeat(1_000)).trim();
  const tokens = blocksOf(`${crowd}\n\n# A title\n\n${some}`).tokens.filter(({ type }) => type !== "space");
  expect(tokens[0]).toMatchObject({ type: "code", text: expect.stringContaining(crowd) });
  expect(tokens.map(({ type }) => type === "code")).toEqual([true, false, false]);
});

it("a text that is nested too deeply, or too long to be read, is shown as it is", () => {
  for (const text of ["> ".repeat(3000) + "x", "- ".repeat(3000) + "x", "word ".repeat(60_000), "~a~~ ".repeat(4_000), "a.b-c".repeat(4_000) + "@"])
    expect(blocksOf(text).tokens).toEqual([{ type: "code", raw: text, text }]);
});
