/** Images in messages and artifacts: bytes that came with them, never an address that something is loaded from. */

import type { ComponentChildren } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import type { Picture } from "../model/preview";

/** An image, which has an address for as long as it is shown; `otherwise`, if the browser cannot read it. */
export function Shown({ picture: { bytes, type, name }, otherwise = null, kind = "picture" }: {
  picture: Picture; otherwise?: ComponentChildren; kind?: string;
}) {
  const url = useAddress(bytes, type);
  const [broken, setBroken] = useState("");
  if (broken === url) return <>{otherwise}</>;
  return <img class={kind} src={url} alt={name} onError={() => setBroken(url)} />;
}

/** Return an address for some content, for as long as it is shown. */
export function useAddress(content: BlobPart, type: string): string {
  const url = useMemo(() => URL.createObjectURL(new Blob([content], { type })), [content, type]);
  useEffect(() => () => URL.revokeObjectURL(url), [url]);
  return url;
}
