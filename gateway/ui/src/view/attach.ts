/** Attaching files: what the agent does not take is refused before a byte is sent, with the reason. */

import { config, view } from "../state";
import { strings } from "../strings";
import { cardOf } from "./card";
import { files, refusal } from "./draft";
import { accepts, bytes } from "./format";

/** Base64 has four characters for three bytes; the rest of the request has some room beside it. */
const ROOM = 0.74;
/** Bytes for the text beside the files. */
const TEXT = 64_000;

/** Attach files to the draft, those that fit the input modes and the size of a request. */
export async function attach(given: readonly File[]): Promise<void> {
  const modes = cardOf(view.value?.agent ?? "")?.card.defaultInputModes ?? [];
  const { body = 0, message = 0 } = config.value?.limits ?? {};
  const limit = Math.floor(Math.min(body * ROOM, message - TEXT));
  refusal.value = "";
  for (const file of given) {
    const type = file.type || "application/octet-stream";
    const size = files.value.reduce((sum, one) => sum + one.size, file.size);
    if (modes.length && !accepts(modes, type)) refusal.value = strings.chat.fileRefused(file.name, type, modes.join(", "));
    else if (size > limit) refusal.value = strings.chat.fileTooBig(file.name, bytes(limit));
    else {
      const reader = new FileReader();
      reader.readAsDataURL(file);
      await new Promise((done) => (reader.onloadend = done));
      const base64 = String(reader.result).split(",", 2)[1] ?? "";
      const shown = () => (type.startsWith("image/") ? URL.createObjectURL(file) : "");
      if (reader.error) refusal.value = strings.chat.fileUnreadable(file.name);
      else files.value = [...files.value, { name: file.name, mediaType: type, size: file.size, base64, url: shown() }];
    }
  }
}
