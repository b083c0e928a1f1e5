/** Reading JSON of an unknown shape. */

export type Json = Readonly<Record<string, unknown>>;

/** Return a JSON object; null for any other value. */
export function object(value: unknown): Json | null {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Json) : null;
}

/** Return the objects in a JSON list; none for any other value. */
export function objects(value: unknown): Json[] {
  return Array.isArray(value) ? value.map(object).filter((item) => item !== null) : [];
}

/** Return a string of a JSON object; empty for any other value. */
export function text(body: Json, key: string): string {
  const value = body[key];
  return typeof value === "string" ? value : "";
}

/** Return a number of a JSON object; 0 for any other value. */
export function number(body: Json, key: string): number {
  const value = body[key];
  return typeof value === "number" ? value : 0;
}

/** What marks a part whose content is shown and kept nowhere: `kind` in its metadata. */
export const SECRET = "credential";

/** Return whether a part is marked as secret. */
export function secret(part: Json): boolean {
  return object(part["metadata"])?.["kind"] === SECRET;
}

/** Return JSON without the content of parts that are marked as secret. */
export function redacted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(redacted);
  const body = object(value);
  if (!body) return value;
  if (secret(body)) return { metadata: body["metadata"] };
  return Object.fromEntries(Object.entries(body).map(([key, inner]) => [key, redacted(inner)]));
}

/** Return the value of JSON text without secrets; null if it is not JSON. */
export function parsed(data: string): unknown {
  try {
    const value = JSON.parse(data) as unknown;
    return data.includes(SECRET) ? redacted(value) : value;
  } catch {
    return null;
  }
}
