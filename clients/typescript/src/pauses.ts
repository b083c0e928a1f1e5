/** Growing pauses between attempts to reach a server. */

import type { Unreachable } from "./failures.ts";

/** Seconds without any success after which a call or a stream is given up. */
export const GIVE_UP_AFTER = 60;

const SHORTEST = 50;
const LONGEST = 1_000;

/**
 * The pauses of one call or stream: 25 ms to 1 s, random and growing, until `giveUpAfter` seconds have passed without any
 * success. A server that was never reached is not waited for, where the system tells that.
 */
export class Pauses {
  readonly #giveUpAfter: number;
  readonly #signal: AbortSignal | undefined;
  #attempts = 0;
  #reached = false;
  #failingSince: number | undefined;

  constructor(giveUpAfter = GIVE_UP_AFTER, signal?: AbortSignal) {
    this.#giveUpAfter = giveUpAfter * 1_000;
    this.#signal = signal;
  }

  /** Note a success: the pauses begin anew. */
  reset(): void {
    this.answered();
    this.#attempts = 0;
  }

  /** Note an answer without progress: the server is there, and the pauses go on growing. */
  answered(): void {
    this.#failingSince = undefined;
    this.#reached = true;
  }

  /** Note a stream that was open for these milliseconds: a success if that is longer than every pause, also without events. */
  lasted(milliseconds: number): void {
    if (milliseconds > LONGEST) this.reset();
  }

  /**
   * Wait before the next attempt, for as long as the server asked if it did. Raise `error` to give up, and the reason of the
   * signal as soon as it is aborted.
   */
  async wait(error: Unreachable): Promise<void> {
    if (!this.#reached && error.reason === "UNREACHABLE") throw error;
    this.#reached = true;
    const now = performance.now();
    this.#failingSince ??= now;
    const longest = Math.min(SHORTEST * 2 ** this.#attempts++, LONGEST);
    const pause = error.retryAfter * 1_000 || longest * (0.5 + Math.random() / 2);
    if (now + pause - this.#failingSince > this.#giveUpAfter) throw error;
    await sleep(pause, this.#signal);
  }
}

function sleep(milliseconds: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason);
    const aborted = (): void => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", aborted);
      resolve();
    }, milliseconds);
    signal?.addEventListener("abort", aborted, { once: true });
  });
}
