/** Four streams for all tabs of an origin, and everybody gets a turn (scenario 29). */

import { setMaxListeners } from "node:events";
import { describe, expect, it } from "vitest";
import { slots as slotsOf, type Slots } from "../src/model/slots";

/** Locks as browsers have them: exclusive, granted in the order of the requests. */
class Browser {
  readonly #held = new Map<string, true>();
  readonly #queue: { name: string; run: () => Promise<void>; signal: AbortSignal; done: () => void; failed: (why: unknown) => void }[] = [];

  request(name: string, { signal }: { signal: AbortSignal }, run: () => Promise<void>): Promise<unknown> {
    return new Promise<void>((done, failed) => {
      const queued = { name, run, signal, done, failed };
      signal.addEventListener("abort", () => this.#queue.includes(queued) && failed(signal.reason));
      this.#queue.push(queued);
      queueMicrotask(() => this.#grant());
    });
  }

  query(): Promise<{ pending: { name: string }[] }> {
    return Promise.resolve({ pending: this.#queue.filter(({ signal }) => !signal.aborted).map(({ name }) => ({ name })) });
  }

  get held(): number {
    return this.#held.size;
  }

  #grant(): void {
    for (const request of [...this.#queue]) {
      if (!request.signal.aborted && this.#held.has(request.name)) continue;
      this.#queue.splice(this.#queue.indexOf(request), 1);
      if (request.signal.aborted) continue;
      this.#held.set(request.name, true);
      void request.run().then(request.done, request.failed).finally(() => {
        this.#held.delete(request.name);
        this.#grant();
      });
    }
  }
}

interface Slot {
  readonly wanted: AbortSignal;
  release(): void;
}

/** Take a place and hold it until it is released; raise if `signal` is aborted before there is one. */
function take(slots: Slots, signal: AbortSignal, waits: () => void): Promise<Slot> {
  const turn = new AbortController();
  signal.addEventListener("abort", () => turn.abort());
  return new Promise((resolve, reject) => {
    const act = (): Promise<void> => new Promise((release) => resolve({ wanted: turn.signal, release }));
    void slots(turn, waits, act).then(() => reject(new Error("it ended")), reject);
  });
}

const never = new AbortController().signal;
setMaxListeners(0, never);

describe("slots", () => {
  it("gives four, and the fifth waits until one is free", async () => {
    const browser = new Browser();
    const slots = slotsOf(browser as never, 20);
    const held = await Promise.all([1, 2, 3, 4].map(() => take(slots, never, () => expect.unreachable())));
    let waits = false;
    const fifth = take(slots, never, () => (waits = true));
    await new Promise((resolve) => setTimeout(resolve, 60));
    expect([browser.held, waits]).toEqual([4, true]);
    held[2]?.release();
    const slot = await fifth;
    expect(browser.held).toBe(4);
    for (const one of [...held, slot]) one.release();
    await Promise.resolve();
  });

  it("is wanted back by those who wait, and by nobody else", async () => {
    const browser = new Browser();
    const slots = slotsOf(browser as never, 10);
    const held = await Promise.all([1, 2, 3, 4].map(() => take(slots, never, () => undefined)));
    await new Promise((resolve) => setTimeout(resolve, 40));
    expect(held.some(({ wanted }) => wanted.aborted)).toBe(false);
    const fifth = take(slots, never, () => undefined);
    await new Promise((resolve) => held[0]?.wanted.addEventListener("abort", resolve));
    held[0]?.release();
    await expect(fifth).resolves.toBeDefined();
  });

  it("lets seven tabs all have their turn", async () => {
    const browser = new Browser();
    const slots = slotsOf(browser as never, 5);
    const turns = new Array<number>(7).fill(0);
    const end = new AbortController();
    setMaxListeners(0, end.signal);
    let most = 0;
    const tab = async (index: number): Promise<void> => {
      while (!end.signal.aborted) {
        const slot = await take(slots, end.signal, () => undefined).catch((): Slot | null => null);
        if (!slot) return;
        turns[index] = (turns[index] ?? 0) + 1;
        most = Math.max(most, browser.held);
        if (turns.every((count) => count >= 3)) end.abort();
        await new Promise<void>((resolve) => {
          slot.wanted.addEventListener("abort", () => resolve());
          end.signal.addEventListener("abort", () => resolve());
          if (end.signal.aborted) resolve();
        });
        slot.release();
      }
    };
    await Promise.all(turns.map((_, index) => tab(index)));
    expect(most).toBe(4);
    expect(turns.every((count) => count >= 3)).toBe(true);
  });

  it("ends waiting when it is not wanted any more", async () => {
    const slots = slotsOf(new Browser() as never, 20);
    await Promise.all([1, 2, 3, 4].map(() => take(slots, never, () => undefined)));
    const leaving = new AbortController();
    const fifth = take(slots, leaving.signal, () => undefined);
    leaving.abort();
    await expect(fifth).rejects.toBeDefined();
  });
});
