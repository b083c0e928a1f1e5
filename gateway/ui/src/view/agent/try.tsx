/** A request to an agent as something to paste: for a shell, for Python, for JavaScript. */

import { useState } from "preact/hooks";
import { type Ask, curl, javascript, python, streaming } from "../../model/snippets";
import { strings } from "../../strings";
import { copy } from "../copy";
import { IconButton } from "../icons";

const WAYS = {
  curl: (ask: Ask) => curl(streaming(ask, "hello-1"), ask.withKey),
  python,
  javascript,
} as const;
type Way = keyof typeof WAYS;

/** Show the request that sends a text to the agent at `url`; the text can be changed. */
export function Try({ url, example, withKey }: { url: string; example: string; withKey: boolean }) {
  const [text, setText] = useState(example);
  const [way, setWay] = useState<Way>("curl");
  const snippet = WAYS[way]({ url, text, withKey });
  return (
    <div class="try">
      <label>
        {strings.agent.text}
        <input class="field" dir="auto" value={text} onInput={(event) => setText(event.currentTarget.value)} />
      </label>
      <div class="sheet-box">
        <div class="ways" role="group" aria-label={strings.agent.ways}>
          {(Object.keys(WAYS) as Way[]).map((one) => (
            <button key={one} type="button" class="button small quiet" aria-pressed={one === way} onClick={() => setWay(one)}>
              {strings.agent.way[one]}
            </button>
          ))}
        </div>
        <IconButton icon="copy" label={strings.agent.copySnippet} size={16} onClick={() => void copy(snippet)} />
        <pre class="sheet" tabIndex={0} dir="ltr">{snippet}</pre>
      </div>
      {withKey && <p class="aside">{strings.agent.keyHint}</p>}
    </div>
  );
}
