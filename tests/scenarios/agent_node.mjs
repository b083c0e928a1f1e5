// The agent of the scenarios in Node. Arguments: the folder of the gates, the addresses of both stores, names of agents.
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Worker } from '../../docs/examples/node-worker/worker.mjs';

const [gates, tasks, sessions, ...names] = process.argv.slice(2);
const pieces = ['one ', 'two ', 'three'];

async function passed(gate, signal) {
  while (!existsSync(join(gates, gate))) await sleep(5, undefined, { signal });
}

const agent = {
  async *run(turn) {
    const [word, ...rest] = turn.text.split(' ');
    if (word === 'hello') yield { complete: `Hello, ${rest.join(' ')}.` };
    else if (word === 'count') for (const text of pieces) yield { text };
    else if (word === 'ask') yield { ask: 'What is your name?' };
    else if (word === 'slow') {
      yield { text: 'begun' };
      await passed(rest[0], turn.signal);
      yield { complete: 'finished' };
    } else if (word === 'fail') throw new Error('password=hunter2');
    else if (word === 'artifact') {
      for (const [index, text] of pieces.entries()) {
        if (index === 1) await passed(rest[0], turn.signal);
        const artifact = { artifact_id: 'r', name: 'Report', parts: [{ text }] };
        yield { artifact: { artifact, append: index > 0, last_chunk: index === 2 } };
      }
    } else yield { complete: `Hello, ${turn.text}.` };
  },
};

await new Worker(agent, { names, tasks, sessions, renewEvery: 0.3 }).run();
