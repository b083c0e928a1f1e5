/** What the page shows where there is nothing yet, or nothing any more: each time with what to do. */

import type { ComponentChildren } from "preact";
import type { Failure } from "../model/view";
import { config, go, mayWrite } from "../state";
import { strings } from "../strings";
import { focusBox } from "./acts";
import { titleOf, useCard } from "./card";
import { offer } from "./draft";
import { Button, Icon } from "./icons";
import { words } from "./toasts";

const PROMPTS = 3;

/** Show an empty conversation: what the agent can do, as messages to begin with. */
export function Empty({ agent }: { agent: string }) {
  const skills = useCard(agent).found?.card.skills ?? [];
  const prompts = mayWrite.value ? skills.filter(({ examples = [] }) => examples.length).slice(0, PROMPTS) : [];
  const about = config.value?.agents.find((one) => one.name === agent)?.description;
  const begin = (text: string) => {
    offer(text);
    focusBox();
  };
  if (!agent)
    return (
      <Notice title={strings.chat.noAgents} text={strings.chat.noAgentsHint}>
        <pre tabIndex={0}>{strings.chat.noAgentsCommand}</pre>
      </Notice>
    );
  return (
    <div class="empty">
      <span class="emblem"><Icon name="agent" size={28} /></span>
      <h2 dir="auto">{strings.chat.emptyTitle(titleOf(agent))}</h2>
      {about && <p dir="auto">{about}</p>}
      {prompts.length > 0 && [
        <p class="aside">{strings.chat.empty}</p>,
        <ul class="prompts">
          {prompts.map(({ id, name = id, description, examples: [text = ""] = [] }) => (
            <li key={id}>
              <button type="button" onClick={() => begin(text)}>
                <strong dir="auto">{name}</strong>
                <small dir="auto">{description}</small>
                <code dir="auto">{text}</code>
              </button>
            </li>
          ))}
        </ul>,
      ]}
      {skills.length > PROMPTS && <Button label={strings.chat.allSkills(skills.length)} act={() => go({ name: "agent", agent })} />}
    </div>
  );
}

/** Say what failed and what to do, under a title if one is given, with a button to try it again. */
export function Failing({ failure, again, title = "" }: { failure: Failure; again: () => void; title?: string }) {
  const [what, todo] = words(failure);
  return (
    <Notice title={title || what} text={title ? `${what} ${todo}` : todo} code={failure.code}>
      <Button kind="primary" label={strings.chat.retry} act={again} />
    </Notice>
  );
}

/** Show a sentence in the middle of the page, with what can be done. */
export function Notice({ title, text, code, children }: { title: string; text: string; code?: string; children?: ComponentChildren }) {
  return (
    <div class="empty" role={code ? "alert" : undefined} data-code={code}>
      <h1 dir="auto">{title}</h1>
      {text && <p dir="auto">{text}</p>}
      {children}
    </div>
  );
}
