/** How an artifact can be shown, by its types and its names. */

import type { Artifact, Part } from "./view";

/** More of a text is not shown, so that the page stays responsive. */
export const MOST = 60_000;
const ROWS = 50;
const COLUMNS = 12;

/** What is shown of a part. `text` is its beginning, where it is one; `cut`: there is more. */
export interface Preview {
  readonly kind: "text" | "markdown" | "html" | "table" | "image" | "link" | "none";
  readonly text: string;
  readonly cut: boolean;
  readonly type: string;
  readonly bytes?: Uint8Array<ArrayBuffer>;
}

/** A part, or the bytes of one that was loaded as a file. */
export type Content = Part & { readonly bytes?: Uint8Array<ArrayBuffer> };

const ENDINGS: Readonly<Record<string, string>> = {
  md: "text/markdown", json: "application/json", csv: "text/csv", html: "text/html", htm: "text/html",
  svg: "image/svg+xml", png: "image/png", jpg: "image/jpeg", jpeg: "image/jpeg", gif: "image/gif", webp: "image/webp",
};
const MARKDOWN = /^(#{1,6} |[-*] \S|\d+\. |```|\|.*\|)/m;

/** Return the name under which an artifact is stored, with an ending. */
export function fileName({ id, name }: Pick<Artifact, "id" | "name">, parts: readonly Part[]): string {
  const [only] = parts;
  if (parts.length === 1 && only?.filename) return only.filename;
  const safe = (name || id).replace(/[/\\:\u0000-\u001f]/g, "_");
  if (/\.\w{1,5}$/.test(safe)) return safe;
  const type = only && typeOf(only, safe);
  const texts = parts.every((part) => part.text !== undefined);
  const ending = Object.keys(ENDINGS).find((one) => ENDINGS[one] === type);
  return `${safe}.${ending ?? (texts ? "txt" : only?.data === undefined ? "bin" : "json")}`;
}

/** Return how a part is shown that is of an artifact with this name. */
export function preview(part: Content, name: string): Preview {
  const type = typeOf(part, name);
  const bytes = part.bytes ?? (part.raw === undefined ? undefined : decoded(part.raw));
  const nothing = { kind: part.url ? "link" : "none", text: part.url ?? "", cut: false, type } as const;
  if (part.data !== undefined) return shortened(JSON.stringify(part.data, null, 2), "text", type);
  if (bytes && type.startsWith("image/")) return { ...nothing, kind: "image", bytes };
  if (bytes && !/^text\/|[/+](json|xml|yaml|javascript)$/.test(type)) return nothing;
  const text = part.text ?? (bytes && new TextDecoder().decode(bytes.subarray(0, 4 * MOST)));
  if (text === undefined) return nothing;
  if (type === "text/html") return shortened(text, "html", type);
  if (type === "text/csv") return shortened(text, "table", type);
  if (type === "text/markdown" || (!type && MARKDOWN.test(text.slice(0, MOST)))) return shortened(text, "markdown", type);
  return shortened(type === "application/json" && text.length < MOST ? indented(text) : text, "text", type);
}

/** Read comma-separated values; quoted ones may have commas, lines and doubled quotes. */
export function table(text: string): { rows: string[][]; cut: boolean } {
  const rows: string[][] = [[]];
  for (const [, quoted, plain, end] of text.matchAll(/(?:"((?:[^"]|"")*)"|([^",\r\n]*))(,|\r?\n|$)/g)) {
    rows.at(-1)!.push(quoted?.replaceAll('""', '"') ?? plain ?? "");
    if (end === "" || rows.length > ROWS + 1) break;
    if (end !== ",") rows.push([]);
  }
  const full = rows.filter((row) => row.some(Boolean));
  const cut = full.length > ROWS || full.some((row) => row.length > COLUMNS);
  return { rows: full.slice(0, ROWS).map((row) => row.slice(0, COLUMNS)), cut };
}

/** Return the media type of a part, by itself or by the ending of a name; empty if nothing tells it. */
function typeOf(part: Part, name: string): string {
  const ending = /\.(\w+)$/.exec(part.filename || name)?.[1]?.toLowerCase() ?? "";
  return part.mediaType?.split(";")[0]!.trim().toLowerCase() || ENDINGS[ending] || "";
}

function shortened(text: string, kind: Preview["kind"], type: string): Preview {
  return { kind, text: text.slice(0, MOST), cut: text.length > MOST, type };
}

function indented(text: string): string {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

function decoded(base64: string): Uint8Array<ArrayBuffer> {
  try {
    return Uint8Array.from(atob(base64.replaceAll("-", "+").replaceAll("_", "/")), (one) => one.charCodeAt(0));
  } catch {
    return new Uint8Array();
  }
}
