/** Opens sessions at a gateway in miniature, and waits for what they show. */

import { effect } from "@preact/signals-core";
import { afterEach, beforeEach, vi } from "vitest";
import { Api } from "../src/model/api";
import type { SessionOptions, SessionView } from "../src/model/followed";
import { OpenSession } from "../src/model/session";
import { slots } from "../src/model/slots";
import type { Draft, Row } from "../src/model/view";
import { Gateway } from "./gateway";

// Other work on the machine may make everything slow.
vi.setConfig({ testTimeout: 30_000 });

export interface Place {
  readonly gateway: Gateway;
  readonly api: Api;
  open(options?: Partial<SessionOptions>): Promise<OpenSession>;
}

/** Give each test of a file a gateway of its own. */
export function eachWithGateway(): Place {
  let gateway = new Gateway();
  let api = new Api(new URL("http://127.0.0.1/"), () => "");
  const sessions: OpenSession[] = [];
  beforeEach(async () => {
    gateway = new Gateway();
    api = new Api(await gateway.start(), () => "");
  });
  afterEach(async () => {
    for (const session of sessions.splice(0)) session.close();
    await gateway.stop();
  });
  return {
    get gateway() {
      return gateway;
    },
    get api() {
      return api;
    },
    async open(options = {}) {
      const session = new OpenSession(api, { agent: "demo", slots: slots(undefined), pauses: { first: 5, most: 20 }, ...options });
      sessions.push(session);
      await session.open();
      return session;
    },
  };
}

/** Wait until a session shows what is wanted, and return it. */
export function until(session: OpenSession, wanted: (view: SessionView) => boolean): Promise<SessionView> {
  return new Promise((resolve, reject) => {
    const late = setTimeout(() => {
      stop();
      const view = session.view.value;
      reject(new Error(`it shows ${JSON.stringify({ ...view, rows: lines(view) })}`));
    }, 20_000);
    const stop = effect(() => {
      const view = session.view.value;
      if (!wanted(view)) return;
      clearTimeout(late);
      resolve(view);
    });
  });
}

/** Wait until something is so. */
export async function eventually(wanted: () => boolean): Promise<void> {
  for (let turn = 0; !wanted(); turn++) {
    if (turn > 4_000) throw new Error("it never came to be");
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

/** Wait until a session follows what happens with nothing running. */
export function idle(session: OpenSession): Promise<SessionView> {
  return until(session, (view) => view.running === null && view.connection === "live" && view.version > 0);
}

export function said(text: string, more: Partial<Draft> = {}): Draft {
  return { text, files: [], ...more };
}

/** Return the rows in short form. */
export function lines(view: SessionView): string[] {
  return view.rows.map(line);
}

function line(row: Row): string {
  switch (row.kind) {
    case "message": {
      const { message, live, interrupted, sending } = row;
      const marks = [live ? "live" : "", interrupted ? "interrupted" : "", sending?.state ?? ""].filter(Boolean);
      return [`${message.role}: ${message.text}`, ...marks.map((mark) => `(${mark})`)].join(" ");
    }
    case "tools":
      return `tools: ${row.calls.map((call) => `${call.name} ${call.state}`).join(", ")}`;
    case "artifact":
      return `artifact: ${row.artifact.id}`;
    case "end":
      return `end: ${row.task.state} ${row.task.error}`.trim();
    case "question":
      return `question: ${row.message?.text ?? ""}`;
  }
}
