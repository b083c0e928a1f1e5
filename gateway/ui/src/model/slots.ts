/**
 * A limit for the streams of all tabs of an origin: browsers allow six connections per host, and requests need some. Four
 * Web Locks are the places; a tab that has one while others wait gives it back after a while and queues again.
 */

/**
 * Do an act as soon as there is a place for it; `waits` is called if there is none at once. `turn` is aborted when another
 * tab has waited long enough for the place, and ends the waiting when it is aborted before. The act raises nothing.
 */
export type Slots = (turn: AbortController, waits: () => void, act: () => Promise<void>) => Promise<void>;

const NAMES = [1, 2, 3, 4].map((number) => `taskplane-stream-${number}`);

/**
 * Return the places of a browser; without Web Locks, which plain HTTP on another host lacks, there is no limit. `hold`:
 * milliseconds that a place is held at least, and between looks whether others wait for it.
 */
export function slots(locks: LockManager | undefined, hold = 1_500): Slots {
  if (!locks) return (_turn, _waits, act) => act();
  return async (turn, waits, act) => {
    const others = new AbortController();
    const waiting = AbortSignal.any([turn.signal, others.signal]);
    const late = setTimeout(waits, 50);
    const run = async (name: string): Promise<void> => {
      waiting.throwIfAborted();
      others.abort();
      clearTimeout(late);
      const look = setInterval(async () => {
        const { pending = [] } = await locks.query().catch(() => ({ pending: [] }));
        if (pending.some((lock) => lock.name === name)) turn.abort();
      }, hold);
      await act().finally(() => clearInterval(look));
    };
    // All of them are refused where an origin may have no locks.
    const asked = NAMES.map((name) => locks.request(name, { signal: waiting }, () => run(name)));
    await Promise.any(asked).catch(() => (turn.signal.aborted ? undefined : act()));
    clearTimeout(late);
  };
}
