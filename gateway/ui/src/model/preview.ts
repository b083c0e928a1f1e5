/** How an artifact can be shown, by its types and its names. */

import { attempt } from "./json";
import type { Artifact, Part } from "./view";

/** More of a text is not shown, so that the page stays responsive. */
export const MOST = 60_000;

/** What is shown of a part. `text` is its beginning, where it is one; `cut`: there is more. */
export type Preview = ReturnType<typeof preview>;
type Kind = "text" | "markdown" | "html" | "image" | "link" | "none";

/** A part, or the bytes of one that was loaded as a file. */
export type Content = Part & { readonly bytes?: Uint8Array<ArrayBuffer> };

const ENDINGS: Readonly<Record<string, string>> = {
  md: "text/markdown", json: "application/json", csv: "text/csv", html: "text/html", htm: "text/html",
  svg: "image/svg+xml", png: "image/png", jpg: "image/jpeg", jpeg: "image/jpeg", gif: "image/gif", webp: "image/webp",
};
/** Texts that are shown as something else than text. */
const KINDS: Readonly<Record<string, Kind>> = { "text/html": "html", "text/markdown": "markdown" };
/** Images that a browser shows, and that are nothing but images: SVG is a document, which may have scripts and links. */
const PICTURE = /^image\/(a?png|jpe?g|gif|webp|avif|bmp)$/i;
/** How the base64 of these begins. */
const BEGINNING = /^(iVBORw0KGgo|[/_]9j[/_]|R0lGOD|UklGR|Qk|AAAA..Z0eX)/;
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

/** An image to show: its bytes, and its name. */
export type Picture = Readonly<{ bytes: Uint8Array<ArrayBuffer>; type: string; name: string }>;

/** Tell whether a media type is one of an image that is shown. */
export const isPicture = (type: string): boolean => PICTURE.test(type);

/** Return the images in parts, in order, that are of something with a name. */
export function picturesOf(parts: readonly Part[], name: string): readonly Picture[] {
  return joined(parts).flatMap((part) => {
    const type = typeOf(part, name);
    const bytes = isPicture(type) && bytesOf(part);
    return bytes ? [{ bytes, type, name: part.filename || name }] : [];
  });
}

/** Return parts in which an image that came in pieces is one: a piece does not begin as an image does. */
export function joined(parts: readonly Content[]): readonly Content[] {
  const whole: Content[] = [];
  for (const part of parts) {
    const last = whole.at(-1);
    const begun = last && isPicture(typeOf(last, "")) && bytesOf(last);
    if (begun && part.raw !== undefined && !BEGINNING.test(part.raw)) {
      const more = decoded(part.raw);
      const bytes = new Uint8Array(begun.length + more.length);
      bytes.set(begun);
      bytes.set(more, begun.length);
      const { raw: _, ...others } = last;
      whole[whole.length - 1] = { ...others, bytes };
    } else whole.push(part);
  }
  return whole;
}

/** Return the bytes of a part; undefined for one that has none. */
export function bytesOf(part: Content): Uint8Array<ArrayBuffer> | undefined {
  return part.bytes ?? (part.raw === undefined ? undefined : decoded(part.raw));
}

/** Return how a part is shown that is of an artifact with this name. */
export function preview(part: Content, name: string) {
  const json = part.data ?? part.unknown;
  const type = json === undefined ? typeOf(part, name) : "application/json";
  const bytes = bytesOf(part);
  const binary = bytes && !/^text\/|[/+](json|xml|yaml|javascript)$/.test(type);
  const given = json === undefined ? part.text : JSON.stringify(json, null, 2);
  const whole = given ?? (bytes && !binary ? new TextDecoder().decode(bytes.subarray(0, 4 * MOST)) : undefined);
  const other: Kind = bytes && type.startsWith("image/") ? "image" : part.url ? "link" : "none";
  if (whole === undefined) return { kind: other, text: part.url ?? "", cut: false, type, bytes };
  const text = whole.slice(0, MOST);
  const cut = whole.length > MOST;
  const kind = KINDS[type] ?? (!type && MARKDOWN.test(text) ? "markdown" : "text");
  const indented = type === "application/json" && !cut ? attempt(() => JSON.stringify(JSON.parse(text), null, 2), text) : text;
  return { kind, text: indented, cut, type, bytes };
}

/** Return the media type of a part, by itself or by the ending of a name; empty if nothing tells it. */
function typeOf(part: Part, name: string): string {
  const ending = /\.(\w+)$/.exec(part.filename || name)?.[1]?.toLowerCase() ?? "";
  return part.mediaType?.split(";")[0]!.trim().toLowerCase() || ENDINGS[ending] || "";
}

function decoded(base64: string): Uint8Array<ArrayBuffer> {
  const standard = base64.replaceAll("-", "+").replaceAll("_", "/");
  return Uint8Array.from(attempt(() => atob(standard), ""), (one) => one.charCodeAt(0));
}
