// A worker: claims tasks, keeps their leases, and drains.
import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { Plane } from './plane.mjs';
import { Run } from './run.mjs';

const SILENCE = 15_000; // the store says something at least every 5 seconds

const log = (message) => console.log(JSON.stringify({ time: new Date().toISOString(), level: 'INFO', message }));

export class Worker {
  constructor(agent, { names, tasks, sessions, secret = '', capacity = 10, renewEvery = 5 }) {
    this.id = randomBytes(8).toString('hex'); // random per process start
    this.plane = new Plane({ tasks, sessions, secret, actor: `worker:${this.id}` });
    Object.assign(this, { agent, names, capacity, renewEvery, runs: new Map(), draining: false });
  }

  /** Renews now instead of at the next regular time. */
  soon() {
    this.hinted = true;
    this.wake?.();
  }

  /** Works until `drain`. */
  async run() {
    this.renewing();
    log('worker ready');
    while (!this.draining) {
      await this.claim();
      await sleep(200 + 800 * Math.random());
    }
  }

  /** Takes tasks until the stream breaks or is silent: leases live by renewals, so nothing is lost with it. */
  claim() {
    return new Promise((resolve) => {
      const request = { process_id: this.id, agents: this.names, capacity: this.capacity };
      this.stream = this.plane.queue.Claim(request, this.plane.metadata()); // without a deadline
      let silent;
      const heard = () => {
        clearTimeout(silent);
        silent = setTimeout(() => this.stream.cancel(), SILENCE);
      };
      const over = () => {
        clearTimeout(silent);
        resolve();
      };
      heard();
      this.stream.on('data', ({ assignment, hint }) => {
        heard();
        if (assignment) this.start(assignment);
        if (assignment || hint?.now) this.soon();
      });
      this.stream.on('error', (error) => {
        if (!this.draining) log(`the claim stream ended: ${error.details}`);
        over();
      });
      this.stream.on('end', over);
    });
  }

  start(assignment) {
    const run = new Run(this.plane, this.agent, assignment);
    const before = this.runs.get(run.uid);
    if (before?.fence === run.fence) return; // it is at work already
    before?.stop(); // a newer lease of the task is ours
    this.runs.set(run.uid, run);
    run.done = run.work().then((ended) => {
      if (this.runs.get(run.uid) === run) this.runs.delete(run.uid);
      log(`task ${run.record.id} ${ended ? 'is done' : 'was stopped'}`);
    });
  }

  /**
   * Renews every lease regularly and on every hint; the answer tells of cancels and new messages. A worker without
   * leases renews as well: one that does not for as long as a lease lasts counts as lost and is given nothing.
   */
  async renewing() {
    let wait = this.renewEvery * 1000;
    for (;;) {
      if (!this.hinted) {
        await new Promise((resolve) => {
          const timer = setTimeout(resolve, wait);
          this.wake = () => {
            clearTimeout(timer);
            resolve();
          };
        });
      }
      this.hinted = false;
      wait = this.renewEvery * 1000;
      const runs = [...this.runs.values()];
      const sent = performance.now();
      try {
        const request = { process_id: this.id, leases: runs.map((run) => run.lease) };
        const reply = await this.plane.call(this.plane.queue, 'Renew', request, { timeout: 2 });
        reply.leases.forEach((lease, index) => {
          if (lease.still_yours) runs[index].renewed(sent, reply.lease_ttl);
          else if (lease.unknown) wait = 200;
          else runs[index].stop(); // canceled, ended, or another's
        });
      } catch (error) {
        log(`the leases were not renewed: ${error.details}`);
        wait = Math.min(1000, wait) * (0.5 + Math.random() / 2);
      }
    }
  }

  /** Takes no more tasks, lets runs end for `seconds`, and gives the others back at once. */
  async drain(seconds = 15) {
    log('draining');
    this.draining = true;
    this.stream?.cancel();
    const ended = Promise.all([...this.runs.values()].map((run) => run.done));
    await Promise.race([ended, sleep(seconds * 1000)]);
    const left = [...this.runs.values()];
    left.forEach((run) => run.stop());
    if (left.length) {
      await this.plane.call(this.plane.queue, 'Release', { process_id: this.id, leases: left.map((run) => run.lease) });
      log(`${left.length} tasks are released`);
    }
  }
}
