/** What concerns the whole page: no network, a lost connection, a new version; and a notice of the open session. */

import { signal } from "@preact/signals";
import { useEffect, useRef, useState } from "preact/hooks";
import { session, view } from "../state";
import { strings } from "../strings";
import { focusBox } from "./acts";
import { Button, Icon, IconButton } from "./icons";
import { outdated } from "./lazy";
import { words } from "./toasts";

const BACK_MS = 3000;
/** The browser says that it has a network. */
export const online = signal(navigator.onLine);
addEventListener("online", () => {
  online.value = true;
});
addEventListener("offline", () => {
  online.value = false;
});
addEventListener("vite:preloadError", () => {
  if (navigator.onLine) outdated.value = true;
});

/** Show the banners that hold now. */
export function Banners() {
  const connection = view.value?.connection ?? "idle";
  const lost = online.value && connection === "lost";
  const back = useBack(lost, online.value && connection !== "offline");
  const notice = view.value?.notice ?? null;
  const said = notice ? words({ code: notice.code, message: notice.text, suggestion: "" }).join(" ") : "";
  return (
    <div class="banners">
      {!online.value && <Banner kind="offline" words={strings.chat.offline} />}
      {lost && <Banner kind="lost" words={strings.chat.lost} />}
      {back && <Banner kind="back" words={strings.chat.back} />}
      {connection === "waiting" && <Banner kind="waiting" words={strings.chat.waitingSlot} />}
      {outdated.value && (
        <Banner kind="update" words={strings.chat.update}>
          <Button kind="small" label={strings.chat.reload} act={() => location.reload()} />
        </Banner>
      )}
      {notice && (
        <Banner kind="notice" code={notice.code} words={said}>
          <IconButton icon="close" label={strings.chat.dismiss} size={16} onClick={dismiss} />
        </Banner>
      )}
    </div>
  );
}

function dismiss(): void {
  session.value?.set({ notice: null });
  focusBox();
}

function Banner(props: { kind: string; words: string; code?: string; children?: preact.ComponentChildren }) {
  return (
    <div class="banner" role="status" data-banner={props.kind} data-code={props.code}>
      <Icon name={props.kind === "back" ? "check" : "alert"} size={16} />
      <span dir="auto">{props.words}</span>
      {props.children}
    </div>
  );
}

/** Tell for a moment that the connection is back after it was lost. */
function useBack(lost: boolean, connected: boolean): boolean {
  const was = useRef(false);
  const [back, setBack] = useState(false);
  useEffect(() => {
    if (lost) was.current = true;
    else if (was.current && connected) {
      was.current = false;
      setBack(true);
      const timer = setTimeout(() => setBack(false), BACK_MS);
      return () => {
        clearTimeout(timer);
        setBack(false);
      };
    }
    return undefined;
  }, [lost, connected]);
  return back;
}
