/** Times, sizes and media types in the words of the reader's language. */

import type { Artifact } from "../model/view";
import { strings } from "../strings";

const DAY = 86_400_000;
// Whether a clock has 12 or 24 hours is the locale's choice, and whether an hour has two digits.
const CLOCK = { hour: hourOf(), minute: "2-digit" } as const;
const DATE = { day: "numeric", month: "short" } as const;
const clock = formatter(CLOCK);
const dated = formatter({ ...DATE, ...CLOCK });
const older = formatter({ ...DATE, year: "numeric", ...CLOCK });
const month = formatter({ month: "long", year: "numeric" });
/** Return a time with all its parts; empty if there is none. */
export const fullTime = formatter({ dateStyle: "full", timeStyle: "medium" });
/** Return the time of a day to the second; empty if there is none. */
export const secondsTime = formatter({ timeStyle: "medium" });
/** Return the time of a day to the millisecond; empty if there is none. */
export const exactTime = formatter({ ...CLOCK, second: "2-digit", fractionalSecondDigits: 3 });
const midnight = () => new Date().setHours(0, 0, 0, 0);
const newYear = () => new Date(new Date().getFullYear(), 0).getTime();

/** Return a time of today as hours and minutes, another one with its day, and its year if it is not this one; empty if there is none. */
export function time(at: string): string {
  const when = Date.parse(at);
  return (midnight() <= when ? clock : newYear() <= when ? dated : older)(at);
}

/** Return how the locale writes the hour of a short time. */
function hourOf(): "numeric" | "2-digit" {
  const five = new Intl.DateTimeFormat(undefined, { timeStyle: "short" }).formatToParts(new Date(2000, 0, 1, 5));
  return five.find(({ type }) => type === "hour")?.value.length === 2 ? "2-digit" : "numeric";
}

/** Return a function that writes a time as the locale of the browser does. */
function formatter(options: Intl.DateTimeFormatOptions): (at: string | number) => string {
  const format = new Intl.DateTimeFormat(undefined, options);
  return (at) => (Number.isNaN(new Date(at).getTime()) ? "" : format.format(new Date(at)));
}

/** Return the heading under which a session of that time is listed. */
export function dayOf(at: string): string {
  const when = Date.parse(at);
  const today = midnight();
  if (Number.isNaN(when) || when >= today) return strings.chat.today;
  if (when >= today - DAY) return strings.chat.yesterday;
  return when >= today - 7 * DAY ? strings.chat.week : month(when);
}

/** Return a duration of milliseconds in the units of the locale, in English `23 ms`, `0.4 sec`, `3 min 5 sec`, `2 hr 10 min`. */
export function duration(ms: number): string {
  const seconds = Math.max(0, ms) / 1000;
  if (seconds < 0.095) return units.millisecond(Math.round(seconds * 1000));
  if (seconds < 10) return tenths(seconds);
  const whole = Math.round(seconds);
  if (whole < 60) return units.second(whole);
  const minutes = Math.floor(whole / 60);
  if (whole < 3600) return both.format([units.minute(minutes), units.second(whole % 60)]);
  return both.format([units.hour(Math.floor(whole / 3600)), units.minute(minutes % 60)]);
}

const both = new Intl.ListFormat(undefined, { type: "unit", style: "narrow" });
const units = { millisecond: unit("millisecond"), second: unit("second"), minute: unit("minute"), hour: unit("hour") };
const tenths = unit("second", 1);

function unit(name: string, digits = 0): (value: number) => string {
  const decimals = { minimumFractionDigits: digits, maximumFractionDigits: digits };
  const format = new Intl.NumberFormat(undefined, { style: "unit", unit: name, unitDisplay: "short", ...decimals });
  return (value) => format.format(value);
}

/** Return a number of bytes in the unit that fits. */
export function bytes(count: number): string {
  if (count < 1000) return `${count} B`;
  if (count < 999_500) return `${(count / 1000).toPrecision(3)} kB`;
  return `${(count / 1_000_000).toPrecision(3)} MB`;
}

/** Tell whether a media type is one of an agent's input modes, which may be patterns as `image/*`. */
export function accepts(modes: readonly string[], type: string): boolean {
  const bare = (one: string) => one.split(";")[0]!.trim().toLowerCase();
  const given = bare(type);
  const fits = (mode: string) => (mode.endsWith("*") ? given.startsWith(mode.replace(/(\*\/)?\*$/, "")) : given === mode);
  return modes.map(bare).some(fits);
}

/** Return a value as text: texts as they are, anything else as indented JSON. */
export function pretty(value: unknown): string {
  return typeof value === "string" ? value : (JSON.stringify(value, null, 2) ?? "");
}

/** Return the first line of a text, shortened. */
export function firstLine(text: string, length = 60): string {
  const line = text.trim().split("\n", 1)[0]!;
  return line.length > length ? `${line.slice(0, length - 1)}…` : line;
}

/** Return the beginning of a text in Markdown as it is read aloud: without blocks of code and without marks. */
export function aloud(text: string): string {
  return text.replace(/```[^]*?(```|$)/g, " ").replace(/[#*`>|~]+/g, "").trim().slice(0, 500);
}

/** Return what an artifact is called. */
export function nameOf({ id, name, versions }: Artifact): string {
  return name || versions.at(-1)?.parts.find((part) => part.filename)?.filename || id;
}

/** Return the size of an artifact, how many versions it has, whether it grows, and what else there is to say of it. */
export function aboutOf({ versions, numbered, complete }: Artifact, more = ""): string {
  const { size = 0 } = versions.at(-1) ?? {};
  const many = numbered && versions.length > 1 && strings.panel.versions(versions.length);
  return [bytes(size), many, !complete && strings.panel.grows, more].filter(Boolean).join(" · ");
}
