/**
 * A limit for the streams of all tabs of an origin: browsers allow six connections per host, and requests need some. Four
 * Web Locks are the places; a tab that has one while others wait gives it back after a while and queues again.
 */

/** What is used of `navigator.locks`. */
export interface Locks {
  request(name: string, options: { signal: AbortSignal }, run: () => Promise<void>): Promise<unknown>;
  query(): Promise<{ pending?: { name?: string }[] }>;
}

export interface Slot {
  /** Aborted when another tab has waited long enough for this slot. */
  readonly wanted: AbortSignal;
  release(): void;
}

export interface Slots {
  /** Return a slot as soon as there is one; call `waits` if there is none at once. Raise if `signal` is aborted. */
  take(signal: AbortSignal, waits: () => void): Promise<Slot>;
}

const NAMES = [1, 2, 3, 4].map((number) => `taskplane-stream-${number}`);

/** Return the slots of this browser; without Web Locks, which plain HTTP on another host lacks, there is no limit. */
export function browserSlots(): Slots {
  const locks = (globalThis.navigator as { locks?: Locks } | undefined)?.locks;
  return locks ? new LockSlots(locks) : { take: () => Promise.resolve(free()) };
}

export class LockSlots implements Slots {
  /** `turn`: milliseconds that a slot is held at least, `look`: between looks whether others wait for it. */
  constructor(
    private readonly locks: Locks,
    private readonly turn = 2_000,
    private readonly look = 1_000,
  ) {}

  async take(signal: AbortSignal, waits: () => void): Promise<Slot> {
    signal.throwIfAborted();
    const others = new AbortController();
    const stop = (): void => others.abort(signal.reason);
    signal.addEventListener("abort", stop, { once: true });
    const late = setTimeout(waits, 50);
    try {
      return await new Promise<Slot>((resolve, reject) => {
        others.signal.addEventListener("abort", () => reject(others.signal.reason), { once: true });
        for (const name of NAMES) {
          const run = (): Promise<void> => {
            if (others.signal.aborted) return Promise.resolve();
            return new Promise((release) => {
              resolve(this.#held(name, release));
              others.abort();
            });
          };
          this.locks.request(name, { signal: others.signal }, run).catch(() => resolve(free()));
        }
      });
    } finally {
      clearTimeout(late);
      signal.removeEventListener("abort", stop);
    }
  }

  #held(name: string, done: () => void): Slot {
    const wanted = new AbortController();
    const look = async (): Promise<void> => {
      const { pending = [] } = await this.locks.query().catch(() => ({ pending: [] }));
      if (pending.some((lock) => lock.name === name)) wanted.abort();
      else timer = setTimeout(() => void look(), this.look);
    };
    let timer = setTimeout(() => void look(), this.turn);
    return {
      wanted: wanted.signal,
      release: () => {
        clearTimeout(timer);
        done();
      },
    };
  }
}

function free(): Slot {
  return { wanted: new AbortController().signal, release: () => undefined };
}
