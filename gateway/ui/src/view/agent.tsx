/** One agent: its card as people read it, what is worth a warning, and requests to try it with. */

import { useState } from "preact/hooks";
import { type Agent, agentPath } from "../model/api";
import { newId } from "../model/events";
import { curl, javascript, python, sending } from "../model/snippets";
import { ROOT, config, mayWrite, route } from "../state";
import { strings } from "../strings";
import { copy } from "./acts";
import { safeLink } from "./blocks";
import { useCard } from "./card";
import { Failing, Head } from "./chat";
import { Act, Button, Facts, Icon, Part, Warnings } from "./controls";
import { begin } from "./keyboard";

const WAYS = { curl, Python: python, JavaScript: javascript };

/** Show the agent that the address names. */
export function AgentPage() {
  const name = route.value.agent;
  const { found, failure, load } = useCard(name, true);
  const { version, provider } = found?.card ?? {};
  const about = [version && strings.agent.version(version), provider?.organization, provider?.url];
  return (
    <section class="agent-page" aria-label={strings.chat.agent}>
      <Head kind="agent-head">
        <span class="emblem"><Icon name="agent" size={26} /></span>
        <div>
          <h1 dir="auto">{found?.card.name ?? name}</h1>
          <p class="aside" dir="auto">{about.filter(Boolean).join(" · ")}</p>
        </div>
        {mayWrite.value && found && <Button kind="primary" label={strings.agent.start} act={() => begin(name)} />}
      </Head>
      {failure && <Failing failure={failure} again={load} />}
      {found && <Shown {...found} />}
    </section>
  );
}

function Shown({ name, card, security, warnings }: Agent) {
  const json = JSON.stringify(card, null, 2);
  const documentation = safeLink(card.documentationUrl ?? "");
  const { extensions = [], ...capabilities } = card.capabilities;
  const interfaces = card.supportedInterfaces.map((one) => `${one.protocolBinding} ${one.protocolVersion}, ${one.url}`);
  const example = card.skills.flatMap(({ examples = [] }) => examples)[0];
  return (
    <>
      <p dir="auto">{card.description}</p>
      <Warnings name={strings.agent.warnings} none={strings.agent.noWarnings} all={warnings} />
      <Part title={strings.agent.skills}>
        <ul class="skills">
          {card.skills.map(({ id, name: skill = id, description, examples = [] }) => (
            <li key={id}>
              <h3 dir="auto">{skill}</h3>
              <p class="aside" dir="auto">{description}</p>
              <div class="chips">
                {examples.map((one) => <Act key={one} label={one} off={!mayWrite.value} act={() => begin(name, one)} />)}
              </div>
            </li>
          ))}
        </ul>
      </Part>
      <Part title={strings.agent.try}>
        <Try url={new URL(agentPath(name), ROOT).href} example={example ?? strings.agent.hello} />
      </Part>
      <Part title={strings.agent.about}>
        <Facts
          rows={[
            [strings.agent.capabilities, ...Object.entries(capabilities).flatMap(([one, on]) => (on ? one : []))],
            [strings.agent.inputModes, ...card.defaultInputModes],
            [strings.agent.outputModes, ...card.defaultOutputModes],
            [strings.agent.interfaces, ...interfaces],
            [strings.agent.extensions, ...extensions.map(({ uri, description = "" }) => `${description} ${uri}`)],
            [strings.agent.security, ...(security.length ? security : [strings.agent.noSecurity])],
          ]}
        />
        {documentation && <a href={documentation} target="_blank" rel="noopener noreferrer nofollow">{strings.agent.documentation}</a>}
      </Part>
      <details class="raw">
        <summary>{strings.agent.raw}</summary>
        <Act icon="copy" label={strings.agent.copyCard} act={() => void copy(json)} />
        <pre class="sheet" tabIndex={0} dir="ltr">{json}</pre>
      </details>
    </>
  );
}

/** The request that sends a text to the agent, as something to paste; the text can be changed. */
function Try({ url, example }: { url: string; example: string }) {
  const [text, setText] = useState(example);
  const [way, setWay] = useState<keyof typeof WAYS>("curl");
  const withKey = config.value?.auth.required ?? false;
  const call = sending(url, { messageId: newId(), parts: [{ text }] }, "SendStreamingMessage");
  const snippet = WAYS[way](call, withKey);
  return (
    <div class="try">
      <label>
        {strings.agent.text}
        <input class="field" dir="auto" value={text} onInput={(event) => setText(event.currentTarget.value)} />
      </label>
      <div class="acts" role="group" aria-label={strings.agent.ways}>
        {(["curl", "Python", "JavaScript"] as const).map((one) => (
          <Act key={one} label={one} pressed={one === way} act={() => setWay(one)} />
        ))}
        <Act icon="copy" label={strings.agent.copySnippet} act={() => void copy(snippet)} />
      </div>
      <pre class="sheet" tabIndex={0} dir="ltr">{snippet}</pre>
      {withKey && <p class="aside">{strings.agent.keyHint}</p>}
    </div>
  );
}
