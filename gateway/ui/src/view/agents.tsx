/** The agents that are served here: what each of them is for, and a conversation with it. */

import { useEffect } from "preact/hooks";
import type { Config } from "../model/api";
import { address, config, mayWrite } from "../state";
import { strings } from "../strings";
import { titleOf } from "./card";
import { Head, NoAgents } from "./chat";
import { readAgents } from "./chosen";
import { Button } from "./controls";
import { begin } from "./keyboard";
import { PageLink } from "./links";

/** Show all agents, as the server lists them now. */
export function Agents() {
  const agents = config.value?.agents ?? [];
  useEffect(() => void readAgents(), []);
  return (
    <section class="agent-page" aria-label={strings.agents.title}>
      <Head kind="agent-head"><div><h1>{strings.agents.title}</h1></div></Head>
      {agents.length ? (
        <ul class="skills" aria-label={strings.agents.title}>
          {agents.map((agent) => <Listed key={agent.name} {...agent} />)}
        </ul>
      ) : <NoAgents />}
    </section>
  );
}

function Listed({ name, title, description, isDefault, skills }: Config["agents"][number]) {
  return (
    <li data-agent={name}>
      <h2 dir="auto"><PageLink href={address({ name: "agent", agent: name })}>{title || name}</PageLink></h2>
      <small dir="auto">{isDefault ? strings.agents.isDefault(name) : name}</small>
      <p dir="auto">{description}</p>
      {skills.length > 0 && <p class="aside" dir="auto">{strings.agents.skills(skills)}</p>}
      {mayWrite.value && (
        <div class="acts">
          <Button icon="plus" label={strings.agent.start} aria-label={strings.agents.startWith(titleOf(name))} act={() => begin(name)} />
        </div>
      )}
    </li>
  );
}
