import { expect, test } from "vitest";
import { readCard, warnings } from "../src/model/card";

const PAGE = new URL("https://plane.example/");
const SKILL = { id: "echo", name: "Echo", description: "Says it again.", tags: ["demo"], examples: ["echo hello"] };
const COMPLETE = {
  name: "demo",
  description: "A demo.",
  version: "1.0.0",
  capabilities: { streaming: true, pushNotifications: false, extensions: [{ uri: "https://x/y", description: "Grows." }] },
  defaultInputModes: ["text/plain"],
  defaultOutputModes: ["text/plain"],
  skills: [SKILL],
  supportedInterfaces: [{ url: "https://plane.example/agents/demo", protocolBinding: "JSONRPC", protocolVersion: "1.0" }],
};
const codes = (card: unknown, page = PAGE) => warnings(card, page).map(({ code, detail }) => `${code} ${detail}`.trim());
const at = (url: string, protocolVersion = "1.0", protocolBinding = "JSONRPC") => ({
  ...COMPLETE,
  supportedInterfaces: [{ url, protocolVersion, protocolBinding }],
});

test("a complete card of either version has no warnings", () => {
  expect(codes(COMPLETE)).toEqual([]);
  const { supportedInterfaces: _, ...rest } = COMPLETE;
  expect(codes({ ...rest, url: "https://plane.example/", preferredTransport: "JSONRPC", protocolVersion: "0.3.0" })).toEqual([]);
});

test("what A2A requires and the card lacks is named, also in skills", () => {
  expect(codes({})).toEqual([
    "MISSING name",
    "MISSING description",
    "MISSING version",
    "MISSING capabilities",
    "MISSING defaultInputModes",
    "MISSING defaultOutputModes",
    "MISSING supportedInterfaces",
    "NO_SKILLS",
    "NO_STREAMING",
  ]);
  expect(codes({ ...COMPLETE, skills: [{ ...SKILL, tags: undefined, description: "" }] })).toEqual([
    "MISSING skills[echo].description",
    "MISSING skills[echo].tags",
  ]);
});

test("an agent without streaming or skills has a warning", () => {
  expect(codes({ ...COMPLETE, capabilities: {} })).toEqual(["NO_STREAMING"]);
  expect(codes({ ...COMPLETE, skills: [] })).toEqual(["NO_SKILLS"]);
});

test.each([
  ["https://other.example/a", ["OTHER_HOST https://other.example/a"]],
  ["http://plane.example/a", ["PLAIN_HTTP http://plane.example/a"]],
  ["not an address", ["BAD_URL not an address"]],
])("the address %s of an interface is judged", (url, expected) => {
  expect(codes(at(url))).toEqual(expected);
});

test("plain HTTP on the same machine is no reason to warn", () => {
  const url = "http://127.0.0.1:8080/";
  expect(codes(at(url), new URL(url))).toEqual([]);
  expect(codes(at(url), new URL("https://127.0.0.1:8080/"))).toEqual([`PLAIN_HTTP ${url}`]);
});

test("versions and bindings that are not known have a warning, each once", () => {
  const twice = { ...COMPLETE, supportedInterfaces: [...at("https://plane.example/", "2.0", "SOAP").supportedInterfaces, ...at("https://plane.example/", "2.0").supportedInterfaces] };
  expect(codes(twice)).toEqual(["UNKNOWN_VERSION 2.0", "UNKNOWN_BINDING SOAP"]);
});

test("security schemes are one line each, in either form", () => {
  const securitySchemes = {
    key: { apiKeySecurityScheme: { location: "header", name: "X-API-Key", description: "Ask us." } },
    bearer: { type: "http", scheme: "bearer" },
  };
  expect(readCard({ ...COMPLETE, securitySchemes }).security).toEqual(["key: apiKey, header X-API-Key, Ask us.", "bearer: http, bearer"]);
});

test("a card of another shape is read as far as possible", () => {
  expect(readCard(null)).toMatchObject({ name: "", skills: [], interfaces: [] });
  expect(readCard({ name: 7, skills: ["x", { id: "a", examples: "no" }], capabilities: "all" })).toMatchObject({
    name: "",
    skills: [{ name: "a", examples: [] }],
    capabilities: [],
  });
});
