/** One agent: its card as people read it, what is worth a warning, and requests to try it with. */

import "../../style/panel.css";
import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import { agentPath } from "../../model/api";
import { type Card, type Warning, readCard, warnings } from "../../model/card";
import { failureOf } from "../../model/failures";
import type { Failure } from "../../model/view";
import { ROOT, agent, api, chat, config, go, mayWrite, route, show } from "../../state";
import { strings } from "../../strings";
import { focusBox } from "../acts";
import { safeLink } from "../blocks";
import { copy } from "../copy";
import { write } from "../draft";
import { Icon, IconButton } from "../icons";
import { drawer } from "../keyboard";
import { words } from "../toasts";
import { Try } from "./try";

/** Show the agent that the address names. */
export function AgentPage() {
  const at = route.value;
  const name = at.name === "agent" ? at.agent : "";
  const [given, setGiven] = useState<unknown>(null);
  const [failure, setFailure] = useState<Failure | null>(null);
  const load = () => {
    setFailure(null);
    void api.card(name).then(setGiven, (error: unknown) => setFailure(failureOf(error)));
  };
  useEffect(load, [name]);
  const card = given === null ? null : readCard(given);
  return (
    <section class="agent-page" aria-label={strings.agent.page}>
      <header class="agent-head">
        <IconButton icon="menu" class="narrow-only" label={strings.agent.menu} onClick={() => (drawer.value = true)} />
        <span class="agent-emblem"><Icon name="agent" size={26} /></span>
        <div>
          <h1 dir="auto">{card?.name || name}</h1>
          <p class="aside" dir="auto">{[card?.version && strings.agent.version(card.version), card?.provider].filter(Boolean).join(" · ")}</p>
        </div>
        {mayWrite.value && (
          <button type="button" class="button primary" onClick={() => begin(name, "")}>{strings.agent.start}</button>
        )}
      </header>
      {failure && (
        <div class="failure" role="alert" data-code={failure.code}>
          <p>{words(failure).join(" ")}</p>
          <button type="button" class="button small" onClick={load}>{strings.agent.again}</button>
        </div>
      )}
      {card && <Shown name={name} card={card} given={given} found={warnings(given, ROOT)} />}
    </section>
  );
}

function Shown({ name, card, given, found }: { name: string; card: Card; given: unknown; found: readonly Warning[] }) {
  const documentation = safeLink(card.documentation);
  const url = new URL(agentPath(name), ROOT).href;
  return (
    <>
      {card.description && <p class="lead" dir="auto">{card.description}</p>}
      {found.length > 0 ? (
        <ul class="warnings" aria-label={strings.agent.warnings}>
          {found.map(({ code, detail }) => (
            <li key={code + detail} data-warning={code}>
              <Icon name="alert" size={16} /> <span>{strings.agent.warning[code](detail)}</span>
            </li>
          ))}
        </ul>
      ) : (
        <p class="fine"><Icon name="check" size={16} /> {strings.agent.noWarnings}</p>
      )}
      {card.skills.length > 0 && (
        <Part title={strings.agent.skills}>
          <ul class="skills">
            {card.skills.map((skill) => (
              <li key={skill.name}>
                <h3 dir="auto">{skill.name}</h3>
                <p dir="auto">{skill.description}</p>
                <div class="chips">
                  {skill.examples.map((example) => (
                    <button key={example} type="button" class="chip" disabled={!mayWrite.value} title={strings.agent.tryExample} onClick={() => begin(name, example)}>
                      <code dir="auto">{example}</code>
                    </button>
                  ))}
                </div>
              </li>
            ))}
          </ul>
        </Part>
      )}
      <Part title={strings.agent.try}>
        <Try url={url} example={card.skills.flatMap(({ examples }) => examples)[0] ?? strings.agent.hello} withKey={config.value?.auth.required ?? false} />
      </Part>
      <Part title={strings.agent.about}>
        <dl class="facts wide">
          <Fact name={strings.agent.capabilities} values={card.capabilities.map(({ name, on }) => strings.agent.capability(name, on))} />
          <Fact name={strings.agent.inputModes} values={card.inputModes} code />
          <Fact name={strings.agent.outputModes} values={card.outputModes} code />
          <Fact name={strings.agent.interfaces} values={card.interfaces.map(({ url, binding, version }) => `${binding} ${version}  ${url}`)} code />
          <Fact name={strings.agent.extensions} values={card.extensions.map(({ uri, description }) => [description, uri].filter(Boolean).join(" "))} />
          <Fact name={strings.agent.security} values={card.security.length ? card.security : [strings.agent.noSecurity]} />
          {documentation && card.documentation && (
            <div>
              <dt>{strings.agent.documentation}</dt>
              <dd><a href={documentation} target="_blank" rel="noopener noreferrer nofollow">{card.documentation}</a></dd>
            </div>
          )}
        </dl>
      </Part>
      <details class="raw">
        <summary>{strings.agent.raw}</summary>
        <div class="sheet-box">
          <IconButton icon="copy" label={strings.agent.copyCard} size={16} onClick={() => void copy(JSON.stringify(given, null, 2))} />
          <pre class="sheet" tabIndex={0} dir="ltr">{JSON.stringify(given, null, 2)}</pre>
        </div>
      </details>
    </>
  );
}

function Part({ title, children }: { title: string; children: ComponentChildren }) {
  return (
    <section>
      <h2>{title}</h2>
      {children}
    </section>
  );
}

function Fact({ name, values, code = false }: { name: string; values: readonly string[]; code?: boolean }) {
  if (!values.length) return null;
  return (
    <div>
      <dt>{name}</dt>
      {values.map((value) => (
        <dd key={value} dir="auto">{code ? <code dir="ltr">{value}</code> : value}</dd>
      ))}
    </div>
  );
}

/** Begin a new chat with the agent, with a text in the box. */
function begin(name: string, text: string): void {
  agent.value = name;
  go(chat(""));
  show("");
  setTimeout(() => {
    if (text) write(text);
    focusBox();
  });
}
