/**
 * Exact resume, keyed sends and sessions for the official JavaScript client of A2A.
 *
 * @packageDocumentation
 */

export { BadUsage, Declined, Failure, Missing, NotUnderstood, Unauthorized, Unreachable } from "./failures.ts";
export { STREAM_SILENCE, steadyFetch } from "./fetching.ts";
export type { Server } from "./http.ts";
export { GIVE_UP_AFTER } from "./pauses.ts";
export { newKey, type Options, type Place, placeOf, resume, send, type SendOptions, stream } from "./resuming.ts";
export { type CallOptions, type Change, type Entry, type Json, type Rewound, type Session, Sessions, type TaskInfo } from "./sessions.ts";
