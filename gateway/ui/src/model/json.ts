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

/** Return the object of JSON text; empty for any other text. */
export function parsed(data: string): Json {
  return attempt(() => object(JSON.parse(data)), null) ?? {};
}

/** Return what an act returns, or another value if it raises. */
export function attempt<Value>(act: () => Value, otherwise: Value): Value {
  try {
    return act();
  } catch {
    return otherwise;
  }
}
