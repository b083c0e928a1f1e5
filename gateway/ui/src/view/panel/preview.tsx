/** One artifact: its versions, what it contains, and how to keep it. */

import { useEffect, useMemo, useState } from "preact/hooks";
import { Failed } from "../../model/failures";
import { type Preview, fileName, previews, typeOf } from "../../model/preview";
import type { Artifact, Part } from "../../model/view";
import { api } from "../../state";
import { strings } from "../../strings";
import { Act } from "../act";
import { safeLink } from "../blocks";
import { copy } from "../copy";
import { bytes } from "../format";
import { Markdown } from "../markdown";
import { save } from "../share/save";
import { toastFailure } from "../toasts";

/** More than this is not copied, but downloaded. */
const MOST_COPIED = 1_000_000;

/** Return what an artifact is called. */
export function nameOf(artifact: Artifact): string {
  return artifact.name || artifact.versions.at(-1)?.parts.find((part) => part.filename)?.filename || artifact.id;
}

/** Show an artifact, the newest version first. */
export function ArtifactView({ artifact }: { artifact: Artifact }) {
  const newest = artifact.versions.length;
  const [chosen, choose] = useState(0);
  const [source, setSource] = useState(false);
  const number = chosen && chosen <= newest ? chosen : newest;
  const version = artifact.versions[number - 1];
  const parts = useParts(artifact, number);
  const shown = useMemo(() => previews(parts ?? [], nameOf(artifact)), [parts]);
  const download = async () => {
    const blob = await fetched(artifact, number === newest ? 0 : number);
    if (blob) save(blob, fileName(artifact, parts ?? []));
  };
  const twofold = shown.some(({ kind }) => kind === "markdown" || kind === "html" || kind === "table");
  const written = shown.some((one) => "text" in one) && (version?.size ?? 0) <= MOST_COPIED;
  return (
    <div class="artifact-view">
      {artifact.description && <p class="aside" dir="auto">{artifact.description}</p>}
      <div class="acts">
        {newest > 1 && (
          <select class="field" aria-label={strings.panel.version} value={number} onChange={(event) => choose(Number(event.currentTarget.value))}>
            {artifact.versions.map((_, index) => (
              <option key={index} value={index + 1}>{strings.panel.versionOf(index + 1, newest)}</option>
            )).reverse()}
          </select>
        )}
        <Act icon="download" label={strings.panel.download} act={() => void download()} />
        {written && <Act icon="copy" label={strings.panel.copy} act={() => void copied(artifact, number)} />}
        {twofold && <Act label={strings.panel.source} pressed={source} act={() => setSource(!source)} />}
      </div>
      {parts === null && <p class="aside" role="status">{strings.panel.loading}</p>}
      {shown.map((one, index) => (
        <Shown key={index} preview={source && "text" in one ? { ...one, kind: "text" } : one} live={version?.complete === false} size={version?.size ?? 0} />
      ))}
    </div>
  );
}

function Shown({ preview, live, size }: { preview: Preview; live: boolean; size: number }) {
  switch (preview.kind) {
    case "none":
      return <p class="aside">{strings.panel.noPreview(preview.type || strings.panel.unknownType, bytes(size))}</p>;
    case "link": {
      const safe = safeLink(preview.url);
      return <p dir="auto">{safe ? <a href={safe} target="_blank" rel="noopener noreferrer nofollow">{preview.url}</a> : preview.url}</p>;
    }
    case "image":
      return <Picture bytes={preview.bytes} type={preview.type} />;
  }
  return (
    <>
      {preview.kind === "markdown" ? (
        <Markdown text={preview.text} live={live} />
      ) : preview.kind === "html" ? (
        <Frame text={preview.text} />
      ) : preview.kind === "table" ? (
        <Table rows={preview.rows} />
      ) : (
        <pre class="sheet" tabIndex={0} dir="auto">{preview.text}</pre>
      )}
      {preview.cut && <p class="aside">{strings.panel.cut(bytes(size))}</p>}
    </>
  );
}

function Table({ rows }: { rows: readonly (readonly string[])[] }) {
  const [head = [], ...body] = rows;
  return (
    <div class="prose">
      <div class="table" tabIndex={0} role="group" aria-label={strings.panel.table}>
        <table>
          <thead><tr>{head.map((cell, index) => <th key={index} dir="auto">{cell}</th>)}</tr></thead>
          <tbody>{body.map((row, at) => <tr key={at}>{row.map((cell, index) => <td key={index} dir="auto">{cell}</td>)}</tr>)}</tbody>
        </table>
      </div>
    </div>
  );
}

function Picture({ bytes: content, type }: { bytes: Uint8Array<ArrayBuffer>; type: string }) {
  const url = useUrl(content, type);
  return url ? <img class="sheet" src={url} alt={strings.panel.image} /> : null;
}

/** A page of an agent: without scripts, and in an origin of its own. */
function Frame({ text }: { text: string }) {
  const url = useUrl(text, "text/html;charset=utf-8");
  return url ? <iframe class="sheet" sandbox="" src={url} title={strings.panel.html} /> : null;
}

function useUrl(content: BlobPart, type: string): string {
  const [url, setUrl] = useState("");
  useEffect(() => {
    const made = URL.createObjectURL(new Blob([content], { type }));
    setUrl(made);
    return () => URL.revokeObjectURL(made);
  }, [content, type]);
  return url;
}

/** Return the parts of a version; null while they are loaded. Older versions are not with the session. */
function useParts(artifact: Artifact, number: number): readonly Part[] | null {
  const known = artifact.versions[number - 1]?.parts ?? [];
  const missing = known.length === 0 && number < artifact.versions.length;
  const [loaded, setLoaded] = useState<{ number: number; parts: readonly Part[] }>({ number: 0, parts: [] });
  useEffect(() => {
    if (!missing || loaded.number === number) return;
    void fetched(artifact, number).then(async (blob) => blob && setLoaded({ number, parts: [await partOf(blob, artifact)] }));
  }, [missing, number]);
  return !missing ? known : loaded.number === number ? loaded.parts : null;
}

/** Return a file as a part like the newest one. */
async function partOf(blob: Blob, artifact: Artifact): Promise<Part> {
  const like = artifact.versions.at(-1)?.parts[0] ?? {};
  const type = typeOf(like, nameOf(artifact)) || blob.type.split(";")[0]!;
  const named = { ...(like.filename && { filename: like.filename }), ...(type !== "text/plain" && { mediaType: type }) };
  if (like.raw === undefined) return { ...named, text: await blob.text() };
  const content = new Uint8Array(await blob.arrayBuffer());
  return { ...named, raw: btoa(content.reduce((all, one) => all + String.fromCharCode(one), "")) };
}

async function copied(artifact: Artifact, version: number): Promise<void> {
  const blob = await fetched(artifact, version);
  if (blob) await copy(await blob.text());
}

async function fetched(artifact: Artifact, version: number): Promise<Blob | null> {
  try {
    return await api.artifact(artifact.taskId, artifact.id, version);
  } catch (error) {
    if (error instanceof Failed) toastFailure(error.failure);
    else throw error;
    return null;
  }
}
