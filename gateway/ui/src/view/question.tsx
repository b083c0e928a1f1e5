/** A task that waits for its user: the answer is given in place, and the same task goes on. */

import { useId, useState } from "preact/hooks";
import type { Failure, Message, TaskInfo } from "../model/view";
import { mayWrite, view } from "../state";
import { strings } from "../strings";
import { focusBox, say, sending } from "./acts";
import { useCard } from "./card";
import { Icon } from "./icons";
import { Markdown } from "./markdown";
import { words } from "./toasts";

/** Show what a task asks for, with a field for the answer. */
export function Question({ task, message }: { task: TaskInfo; message: Message | null }) {
  const signIn = task.state === "auth-required";
  const title = signIn ? strings.chat.asksSignIn : strings.chat.asks;
  return (
    <section class="question" data-task-id={task.id} data-state={task.state} aria-label={title}>
      <header>
        <Icon name={signIn ? "key" : "question"} size={18} />
        <h2>{title}</h2>
      </header>
      {message && <Markdown text={message.text} />}
      {mayWrite.value ? signIn ? <Credential /> : <Answer /> : null}
    </section>
  );
}

function Answer() {
  const [text, setText] = useState("");
  return (
    <form
      class="answer"
      onSubmit={(event) => {
        event.preventDefault();
        if (text.trim()) void say({ text, files: [] }).then((failed) => {
          if (failed) return;
          setText("");
          focusBox();
        });
      }}
    >
      <input
        class="field"
        dir="auto"
        aria-label={strings.chat.answerHint}
        placeholder={strings.chat.answerHint}
        autocomplete="off"
        value={text}
        onInput={(event) => setText(event.currentTarget.value)}
      />
      <button type="submit" class="button primary" disabled={!text.trim() || sending.value}>{strings.chat.answer}</button>
    </form>
  );
}

function Credential() {
  const [secret, setSecret] = useState("");
  const [failure, setFailure] = useState<Failure | null>(null);
  const schemes = useCard(view.value?.agent ?? "")?.security ?? [];
  const id = useId();
  return (
    <form
      class="credential"
      onSubmit={(event) => {
        event.preventDefault();
        if (!secret) return;
        setFailure(null);
        void say({ text: strings.chat.credentialSent, files: [], secret }).then((failed) => {
          setFailure(failed);
          setSecret("");
          if (!failed) focusBox();
        });
      }}
    >
      {schemes.length > 0 && <ul>{schemes.map((one) => <li key={one} dir="auto">{one}</li>)}</ul>}
      <div class="answer">
        <input
          class="field"
          type="password"
          aria-label={strings.chat.credential}
          aria-describedby={id}
          placeholder={strings.chat.credential}
          autocomplete="off"
          value={secret}
          onInput={(event) => setSecret(event.currentTarget.value)}
        />
        <button type="submit" class="button primary" disabled={!secret || sending.value}>{strings.chat.credentialSend}</button>
      </div>
      {failure && <p class="failure" role="alert" data-code={failure.code}>{words(failure).join(" ")}</p>}
      <p class="aside" id={id}>{strings.chat.credentialHint}</p>
    </form>
  );
}
