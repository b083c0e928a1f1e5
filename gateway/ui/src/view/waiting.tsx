/** Why a queued task will not begin, and what to do about it, as the server tells it. */

import { useEffect, useState } from "preact/hooks";
import { object, text } from "../model/json";
import { api } from "../state";
import { useEvery } from "./controls";
import { words } from "./toasts";

/** The server tells nothing of the first second. */
const FIRST_MS = 1100;
const EVERY_MS = 3000;

/** Ask for it as long as it is shown and seen; nothing while something may take the task, or nobody could be asked. */
export function Waiting({ id }: { id: string }) {
  const [[code, told], tell] = useState(["", ""]);
  const look = async () => {
    const task = await api.task(id).catch(() => null);
    const why = task && (object(object(task["metadata"])?.["taskplane.dev/waiting"]) ?? {});
    if (!why) return;
    const code = text(why, "code");
    tell([code, code && words({ code, message: text(why, "message"), suggestion: text(why, "suggestion") }).join(" ")]);
  };
  useEvery(EVERY_MS, look);
  useEffect(() => {
    const first = setTimeout(() => void look(), FIRST_MS);
    return () => clearTimeout(first);
  }, [id]);
  return <p class="aside" role="status" data-waiting={code || undefined} dir="auto" hidden={!code}>{told}</p>;
}
