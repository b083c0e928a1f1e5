// node main.mjs: a worker of `agent.mjs`, until SIGTERM or SIGINT.
import { agent } from './agent.mjs';
import { Worker } from './worker.mjs';

const { NAME = 'far', TASKS = '127.0.0.1:50050', SESSIONS = TASKS, INTERNAL_SECRET, RENEW_EVERY, DRAIN_TIMEOUT } = process.env;

const worker = new Worker(agent, {
  names: [NAME],
  tasks: TASKS,
  sessions: SESSIONS,
  secret: INTERNAL_SECRET,
  renewEvery: Number(RENEW_EVERY ?? 5),
});
for (const signal of ['SIGTERM', 'SIGINT']) {
  process.once(signal, async () => {
    await worker.drain(Number(DRAIN_TIMEOUT ?? 15));
    process.exit(0);
  });
}
await worker.run();
