/** Signing in with a key of this server. The key is in memory or in this tab's storage, never in an address. */

import "../style/panel.css";
import { useRef, useState } from "preact/hooks";
import { Api } from "../model/api";
import { failureOf } from "../model/failures";
import { ROOT, key, signIn } from "../state";
import { strings } from "../strings";
import { words } from "./toasts";

/** Ask for a key; it is tried before it is used. */
export function SignIn() {
  const field = useRef<HTMLInputElement>(null);
  const [remember, setRemember] = useState(true);
  const [busy, setBusy] = useState(false);
  const [refusal, setRefusal] = useState(key.value ? strings.signIn.expired : "");
  const submit = async (event: Event) => {
    event.preventDefault();
    const given = field.current!.value.trim();
    setBusy(true);
    const asked = new Api(ROOT, () => given).config();
    const refused = await asked.then(({ caller }) => (caller ? null : { code: "BAD_CREDENTIALS" }), failureOf);
    const why = refused ? words(refused).join(" ") : "";
    setBusy(false);
    setRefusal(why);
    if (why) field.current?.select();
    else signIn(given, remember);
  };
  return (
    <main class="sign-in">
      <form class="try" onSubmit={(event) => void submit(event)}>
        <h1>{strings.product}</h1>
        <p class="aside">{strings.signIn.why}</p>
        <label>
          {strings.signIn.key}
          <input ref={field} class="field" type="password" autocomplete="current-password" autofocus required
            aria-invalid={refusal !== ""} aria-describedby={refusal ? "key-refusal" : "key-hint"} />
        </label>
        {refusal && <p id="key-refusal" class="failure" role="alert" data-code="BAD_CREDENTIALS">{refusal}</p>}
        <label class="choice">
          <input type="checkbox" checked={remember} onChange={(event) => setRemember(event.currentTarget.checked)} />
          {strings.signIn.remember}
        </label>
        <small id="key-hint">{remember ? strings.signIn.remembered : strings.signIn.inMemory}</small>
        <button class="button primary" disabled={busy}>{busy ? strings.signIn.busy : strings.signIn.signIn}</button>
      </form>
    </main>
  );
}
