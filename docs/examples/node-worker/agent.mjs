// An agent that answers, asks, fails and makes artifacts, as the first message of its task says.
import { setTimeout as sleep } from 'node:timers/promises';

const chunk = (index, count) => ({
  artifact: {
    artifact: { artifact_id: 'chunks', name: index ? '' : 'Chunks', parts: [{ text: `${index}`.padStart(8, '0').repeat(2) }] },
    append: index > 0,
    last_chunk: index === count - 1,
  },
});

export const agent = {
  async *run(turn) {
    const [command, ...rest] = turn.text.split(' ');
    const words = rest.join(' ');
    if (!turn.first) yield { complete: `You said: "${turn.text}"` };
    else if (command === 'ask') yield { ask: words };
    else if (command === 'fail') yield { fail: words };
    else if (command === 'count') yield { complete: `${(await turn.history()).length} messages came before.` };
    else if (command === 'slow') {
      for (let index = 0; index < Number(words); index++) {
        await sleep(250, undefined, { signal: turn.signal });
        yield chunk(index, Number(words));
      }
      yield {};
    } else {
      for (const word of turn.text.split(/(?<= )/)) yield { text: word };
      yield { complete: turn.text };
    }
  },
};
