/** One artifact: its versions, what it contains, and how to keep it. */

import { useEffect, useMemo, useState } from "preact/hooks";
import { failureOf } from "../../model/failures";
import { type Content, type Preview, fileName, preview, table } from "../../model/preview";
import type { Artifact } from "../../model/view";
import { api } from "../../state";
import { strings } from "../../strings";
import { Act } from "../controls";
import { copy } from "../copy";
import { bytes, nameOf } from "../format";
import { Link, Markdown, Table } from "../markdown";
import { save } from "../share/save";
import { toastFailure } from "../toasts";

const MOST_COPIED = 1_000_000;
const MOST_PARTS = 20;

/** Show an artifact, the newest version first. */
export function ArtifactView({ artifact }: { artifact: Artifact }) {
  const newest = artifact.versions.length;
  const [chosen, choose] = useState(0);
  const [source, setSource] = useState(false);
  const number = chosen || newest;
  const version = artifact.versions[number - 1];
  const parts = useParts(artifact, number);
  const shown = useMemo(() => parts.slice(0, MOST_PARTS).map((part) => preview(part, nameOf(artifact))), [parts]);
  const fetch = (act: (blob: Blob) => unknown) =>
    void api.artifact(artifact.taskId, artifact.id, chosen).then(act, (error: unknown) => toastFailure(failureOf(error)));
  const size = version?.size ?? 0;
  return (
    <div class="opened">
      {artifact.description && <p class="aside" dir="auto">{artifact.description}</p>}
      <div class="acts">
        {newest > 1 && (
          <select
            class="field"
            aria-label={strings.panel.version}
            value={number}
            onChange={(event) => choose(Number(event.currentTarget.value))}
          >
            {artifact.versions.map((_, at) => <option value={at + 1}>{strings.panel.versionOf(at + 1, newest)}</option>)}
          </select>
        )}
        <Act icon="download" label={strings.panel.download} act={() => fetch((blob) => save(blob, fileName(artifact, parts)))} />
        {size < MOST_COPIED && shown.some(({ kind }) => kind !== "image" && kind !== "none") && (
          <Act icon="copy" label={strings.panel.copy} act={() => fetch(async (blob) => copy(await blob.text()))} />
        )}
        {shown.some(({ kind }) => ["markdown", "html", "table"].includes(kind)) && (
          <Act label={strings.panel.source} pressed={source} act={() => setSource(!source)} />
        )}
      </div>
      {shown.map((one, at) => <Shown key={at} {...one} {...(source && one.text && { kind: "text" })} size={size} />)}
    </div>
  );
}

function Shown(given: Preview & { size: number }) {
  const rows = useMemo(() => (given.kind === "table" ? table(given.text) : null), [given.text, given.kind]);
  const cut = (given.cut || rows?.cut) && <p class="aside">{strings.panel.cut(bytes(given.size))}</p>;
  return (
    <>
      {rows ? <div class="prose"><Table rows={rows.rows} label={strings.panel.table} /></div> : <Body {...given} />}
      {cut}
    </>
  );
}

function Body({ kind, text, type, size, bytes: content }: Preview & { size: number }) {
  const url = useUrl(kind === "html" ? text : content, kind === "html" ? "text/html;charset=utf-8" : type);
  switch (kind) {
    case "none":
      return <p class="aside">{strings.panel.noPreview(type || strings.panel.unknownType, bytes(size))}</p>;
    case "link":
      return <p><Link href={text}>{text}</Link></p>;
    case "image":
      return url ? <img class="sheet" src={url} alt={strings.panel.image} /> : null;
    case "html":
      // Without scripts, and in an origin of its own.
      return url ? <iframe class="sheet" sandbox="" src={url} title={strings.panel.html} /> : null;
    case "markdown":
      return <Markdown text={text} live />;
    default:
      return <pre class="sheet" tabIndex={0} dir="auto">{text}</pre>;
  }
}

/** Return an address of a content in this page, for as long as it is shown. */
function useUrl(content: BlobPart | undefined, type: string): string {
  const [url, setUrl] = useState("");
  useEffect(() => {
    if (content === undefined) return;
    const made = URL.createObjectURL(new Blob([content], { type }));
    setUrl(made);
    return () => URL.revokeObjectURL(made);
  }, [content, type]);
  return url;
}

/** Return the parts of a version. Older ones, which are not with the session, are loaded. */
function useParts(artifact: Artifact, number: number): readonly Content[] {
  const known = artifact.versions[number - 1]?.parts ?? [];
  const [loaded, setLoaded] = useState<{ number: number; parts: readonly Content[] }>({ number: 0, parts: [] });
  const missing = !known.length && number < artifact.versions.length && loaded.number !== number;
  useEffect(() => {
    if (!missing) return;
    const { filename = "", mediaType = "" } = artifact.versions.at(-1)?.parts[0] ?? {};
    const read = async (blob: Blob) => {
      const type = mediaType || (blob.type.startsWith("text/plain") ? "" : blob.type);
      const given = { filename, mediaType: type };
      const content = new Uint8Array(await blob.arrayBuffer());
      const bytes = type || filename ? { bytes: content } : { text: new TextDecoder().decode(content) };
      setLoaded({ number, parts: [{ ...given, ...bytes }] });
    };
    api.artifact(artifact.taskId, artifact.id, number).then(read, (error: unknown) => toastFailure(failureOf(error)));
  }, [missing]);
  return loaded.number === number ? loaded.parts : known;
}
