/** How an artifact can be shown, by its types and its names. */

import { object } from "./json";
import type { Artifact, Part } from "./view";

/** More of a text is not shown, so that the page stays responsive. */
export const MOST = 60_000;
const ROWS = 50;
const COLUMNS = 12;

export type Preview =
  | { readonly kind: "text" | "markdown" | "json" | "html"; readonly text: string; readonly cut: boolean }
  | { readonly kind: "table"; readonly rows: readonly (readonly string[])[]; readonly text: string; readonly cut: boolean }
  | { readonly kind: "image"; readonly bytes: Uint8Array<ArrayBuffer>; readonly type: string }
  | { readonly kind: "link"; readonly url: string }
  | { readonly kind: "none"; readonly type: string };

const ENDINGS: Readonly<Record<string, string>> = {
  md: "text/markdown",
  markdown: "text/markdown",
  json: "application/json",
  csv: "text/csv",
  html: "text/html",
  htm: "text/html",
  svg: "image/svg+xml",
  png: "image/png",
  jpg: "image/jpeg",
  jpeg: "image/jpeg",
  gif: "image/gif",
  webp: "image/webp",
};
const MARKDOWN = /^(#{1,6} |[-*] \S|\d+\. |```|\|.*\|)/m;

/** Return the media type of a part, by itself or by the ending of a name; empty if nothing tells it. */
export function typeOf(part: Part, name: string): string {
  const ending = /\.(\w+)$/.exec(part.filename || name)?.[1]?.toLowerCase() ?? "";
  return (part.mediaType ?? "").split(";")[0]!.trim().toLowerCase() || ENDINGS[ending] || "";
}

/** Return the name under which an artifact is stored, with an ending. */
export function fileName(artifact: Pick<Artifact, "id" | "name">, parts: readonly Part[]): string {
  const [only] = parts;
  if (parts.length === 1 && only?.filename) return only.filename;
  const name = (artifact.name || artifact.id).replace(/[/\\:\u0000-\u001f]/g, "_");
  if (/\.\w{1,5}$/.test(name)) return name;
  const type = only ? typeOf(only, name) : "";
  const ending = Object.keys(ENDINGS).find((one) => ENDINGS[one] === type);
  const texts = parts.every((part) => part.text !== undefined);
  return `${name}.${ending ?? (texts ? "txt" : only?.data !== undefined ? "json" : "bin")}`;
}

/** Return how each part of an artifact is shown; texts are shortened to what a page can bear. */
export function previews(parts: readonly Part[], name: string): Preview[] {
  return parts.slice(0, 20).map((part) => preview(part, typeOf(part, name)));
}

function preview(part: Part, type: string): Preview {
  if (part.data !== undefined) return json(part.data);
  if (part.text !== undefined) return written(part.text.slice(0, MOST), part.text.length > MOST, type);
  if (part.raw === undefined) return part.url ? { kind: "link", url: part.url } : { kind: "none", type };
  if (type.startsWith("image/")) return { kind: "image", bytes: decoded(part.raw), type };
  if (!/^text\/|[/+](json|xml|yaml|javascript)$/.test(type)) return { kind: "none", type };
  const bytes = decoded(part.raw.slice(0, Math.ceil(MOST / 3) * 4));
  return written(new TextDecoder().decode(bytes), part.raw.length > Math.ceil(MOST / 3) * 4, type);
}

function written(text: string, cut: boolean, type: string): Preview {
  if (type === "text/markdown" || (!type && MARKDOWN.test(text))) return { kind: "markdown", text, cut };
  if (type === "text/html") return { kind: "html", text, cut };
  if (type === "text/csv") return table(text, cut);
  if (/[/+]json$/.test(type) && !cut) {
    try {
      return json(JSON.parse(text));
    } catch {
      return { kind: "text", text, cut };
    }
  }
  return { kind: "text", text, cut };
}

function json(data: unknown): Preview {
  const whole = JSON.stringify(object(data) ?? data, null, 2) ?? "";
  return { kind: "json", text: whole.slice(0, MOST), cut: whole.length > MOST };
}

/** Read comma-separated values; quoted ones may have commas, lines and doubled quotes. */
function table(text: string, cut: boolean): Preview {
  const rows: string[][] = [[]];
  for (const [, quoted, plain, end] of text.matchAll(/(?:"((?:[^"]|"")*)"|([^",\r\n]*))(,|\r?\n|$)/g)) {
    rows.at(-1)!.push(quoted?.replaceAll('""', '"') ?? plain ?? "");
    if (end === "") break;
    if (end !== ",") rows.push([]);
    if (rows.length > ROWS + 1) break;
  }
  const full = rows.filter((row) => row.some(Boolean)).map((row) => row.slice(0, COLUMNS));
  const more = cut || full.length > ROWS || rows.some((row) => row.length > COLUMNS);
  return { kind: "table", rows: full.slice(0, ROWS), text, cut: more };
}

function decoded(base64: string): Uint8Array<ArrayBuffer> {
  try {
    return Uint8Array.from(atob(base64.replaceAll("-", "+").replaceAll("_", "/")), (one) => one.charCodeAt(0));
  } catch {
    return new Uint8Array();
  }
}
