/** An agent's card, of A2A 1.0 or 0.3, and what is worth a warning in it. */

import { type Json, object, objects, text } from "./json";

interface Interface {
  readonly url: string;
  readonly binding: string;
  readonly version: string;
}

/** What a reader of a card should know; `detail` is the member, the address or the version that it is about. */
export interface Warning {
  readonly code: "MISSING" | "NO_STREAMING" | "NO_SKILLS" | "BAD_URL" | "OTHER_HOST" | "PLAIN_HTTP" | "UNKNOWN_VERSION" | "UNKNOWN_BINDING";
  readonly detail: string;
}

const REQUIRED = ["name", "description", "version", "capabilities", "defaultInputModes", "defaultOutputModes", "skills"];
const REQUIRED_OF_SKILL = ["id", "name", "description", "tags"];
const BINDINGS = new Set(["JSONRPC", "GRPC", "HTTP+JSON"]);
const VERSIONS = /^(1\.0|0\.3)(\.\d+)?$/;
const LOOPBACK = /^(localhost|127(\.\d+){3}|\[::1\])$/;

/** Return what a card says; missing members are empty. */
export function readCard(given: unknown) {
  const card = object(given) ?? {};
  const { extensions, ...capabilities } = object(card["capabilities"]) ?? {};
  const provider = object(card["provider"]) ?? {};
  return {
    name: text(card, "name"),
    description: text(card, "description"),
    version: text(card, "version"),
    provider: [text(provider, "organization"), text(provider, "url")].filter(Boolean).join(", "),
    documentation: text(card, "documentationUrl"),
    interfaces: interfaces(card),
    capabilities: Object.entries(capabilities).flatMap(([name, on]) => (typeof on === "boolean" ? [{ name, on }] : [])),
    extensions: objects(extensions).map((one) => ({ uri: text(one, "uri"), description: text(one, "description") })),
    skills: objects(card["skills"]).map((one) => ({
      name: text(one, "name") || text(one, "id"),
      description: text(one, "description"),
      tags: words(one["tags"]),
      examples: words(one["examples"]),
    })),
    inputModes: words(card["defaultInputModes"]),
    outputModes: words(card["defaultOutputModes"]),
    security: Object.entries(object(card["securitySchemes"]) ?? {}).map(([name, scheme]) => `${name}: ${schemeOf(scheme)}`),
  };
}

/** Return what is worth a warning in a card that a page of this address shows. */
export function warnings(given: unknown, page: URL): Warning[] {
  const card = object(given) ?? {};
  const missing = REQUIRED.filter((name) => !present(card[name]));
  const found: Warning[] = missing.filter((name) => name !== "skills").map((detail) => ({ code: "MISSING", detail }));
  const offered = interfaces(card);
  if (!offered.length) found.push({ code: "MISSING", detail: "supportedInterfaces" });
  if (!objects(card["skills"]).length) found.push({ code: "NO_SKILLS", detail: "" });
  objects(card["skills"]).forEach((skill, index) => {
    const name = text(skill, "id") || String(index);
    for (const member of REQUIRED_OF_SKILL) if (!present(skill[member])) found.push({ code: "MISSING", detail: `skills[${name}].${member}` });
  });
  if (object(card["capabilities"])?.["streaming"] !== true) found.push({ code: "NO_STREAMING", detail: "" });
  for (const one of offered) {
    found.push(...urlWarnings(one.url, page));
    if (!VERSIONS.test(one.version)) found.push({ code: "UNKNOWN_VERSION", detail: one.version });
    if (!BINDINGS.has(one.binding)) found.push({ code: "UNKNOWN_BINDING", detail: one.binding });
  }
  return found.filter((one, at) => found.findIndex(({ code, detail }) => code === one.code && detail === one.detail) === at);
}

function urlWarnings(given: string, page: URL): Warning[] {
  if (!URL.canParse(given)) return [{ code: "BAD_URL", detail: given }];
  const url = new URL(given);
  const plain = url.protocol === "http:" && (page.protocol === "https:" || !LOOPBACK.test(url.hostname));
  return [
    ...(url.host === page.host ? [] : [{ code: "OTHER_HOST", detail: given } as const]),
    ...(plain ? [{ code: "PLAIN_HTTP", detail: given } as const] : []),
  ];
}

/** Return the interfaces of a card of 1.0, or else those of the members that 0.3 has for them. */
function interfaces(card: Json): Interface[] {
  const now = objects(card["supportedInterfaces"]);
  if (now.length) return now.map((one) => ({ url: text(one, "url"), binding: text(one, "protocolBinding"), version: text(one, "protocolVersion") }));
  const version = text(card, "protocolVersion");
  const main = text(card, "url") ? [{ url: text(card, "url"), binding: text(card, "preferredTransport") || "JSONRPC", version }] : [];
  const more = objects(card["additionalInterfaces"]).map((one) => ({ url: text(one, "url"), binding: text(one, "transport"), version }));
  return [...main, ...more.filter((one) => one.url !== main[0]?.url || one.binding !== main[0].binding)];
}

/** Say what a scheme asks for: 1.0 has one member that names its kind, 0.3 a `type`. */
function schemeOf(given: unknown): string {
  const outer = object(given) ?? {};
  const [kind = "", inner = null] = Object.entries(outer).find(([, value]) => object(value)) ?? [];
  const scheme = "type" in outer ? outer : (object(inner) ?? {});
  const place = [text(scheme, "location") || text(scheme, "in"), text(scheme, "name")].filter(Boolean).join(" ");
  const type = text(scheme, "type") || kind.replace(/SecurityScheme$/, "");
  return [type, text(scheme, "scheme"), place, text(scheme, "description")].filter(Boolean).join(", ");
}

function present(value: unknown): boolean {
  return value !== undefined && value !== null && value !== "";
}

function words(given: unknown): string[] {
  return Array.isArray(given) ? given.filter((one): one is string => typeof one === "string") : [];
}
