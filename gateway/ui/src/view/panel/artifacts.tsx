/** What the tasks of the session made: a list, and the one that is open, with its versions and what they contain. */

import type { ComponentChildren } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import { type Content, type Preview, fileName, joined, preview } from "../../model/preview";
import type { Artifact, Part } from "../../model/view";
import { api, selected, session, view } from "../../state";
import { strings } from "../../strings";
import { copy } from "../acts";
import { Act, Choice, Icon, useNewest, walk } from "../controls";
import { aboutOf, bytes, nameOf } from "../format";
import { Link, Markdown } from "../markdown";
import { Shown as Image, useAddress } from "../picture";
import { save } from "../share";
import { toastError } from "../toasts";
import { titles } from "./tasks";

const MOST_COPIED = 1_000_000;
const MOST_PARTS = 20;
/** What is selected where no artifact is to be open. */
const CLOSED = "closed";

/** Show the artifacts of the open session, oldest first; the one that was chosen, or the newest, is open. */
export function Artifacts() {
  const { tasks = [], artifacts: all = [] } = view.value ?? {};
  useEffect(() => void session.value?.loadArtifacts(), [session.value, tasks.length]);
  const chosen = all.findLastIndex((one) => [keyOf(one), one.id, one.taskId].includes(selected.value));
  const shown = chosen < 0 && selected.value !== CLOSED ? all.length - 1 : chosen;
  const [from, earlier] = useNewest(all.length, shown);
  if (!all.length) return <p class="empty">{strings.panel.noArtifacts}</p>;
  return (
    <>
      {earlier}
      <ul class="entries" onKeyDown={(event) => walk(event, ".entry")}>
        {all.slice(from).map((one, index) => {
          const open = from + index === shown;
          const toggle = () => (selected.value = open ? CLOSED : keyOf(one));
          return (
            <li key={keyOf(one)} data-artifact-id={one.id} class={open ? "open" : undefined}>
              <button type="button" class="entry" aria-expanded={open} onClick={toggle}>
                <Icon name="chevron" size={16} />
                <strong dir="auto">{nameOf(one)}</strong>
                <small dir="auto">{aboutOf(one, titles.value.get(one.taskId))}</small>
              </button>
              {open && <ArtifactView artifact={one} />}
            </li>
          );
        })}
      </ul>
    </>
  );
}

const keyOf = ({ taskId, id }: Artifact) => `${taskId}/${id}`;

/** Show an artifact, the newest version first. */
function ArtifactView({ artifact }: { artifact: Artifact }) {
  const newest = artifact.versions.length;
  const [chosen, choose] = useState(0);
  const [source, setSource] = useState(false);
  const number = chosen || newest;
  const { size = 0, parts = [] } = artifact.versions[number - 1] ?? {};
  const content = useContent(artifact, number, parts);
  const shown = useMemo(() => joined(content).slice(0, MOST_PARTS).map((part) => preview(part, nameOf(artifact))), [content]);
  const use = (act: (blob: Blob) => unknown) => () => void read(artifact, chosen, act);
  const has = (...kinds: string[]) => shown.some(({ kind }) => kinds.includes(kind));
  return (
    <div class="opened">
      {artifact.description && <p class="aside" dir="auto">{artifact.description}</p>}
      <div class="acts">
        {newest > 1 && artifact.numbered && (
          <Choice label={strings.panel.version} value={number} act={(value) => choose(Number(value))}
            options={artifact.versions.map((_, at) => [at + 1, strings.panel.versionOf(at + 1, newest)])} />
        )}
        <Act icon="download" label={strings.panel.download} act={use((blob) => save(blob, fileName(artifact, content)))} />
        {size < MOST_COPIED && has("text", "markdown", "html", "link") && (
          <Act icon="copy" label={strings.panel.copy} act={use(async (blob) => copy(await blob.text()))} />
        )}
        {has("markdown", "html") && <Act label={strings.panel.source} pressed={source} act={() => setSource(!source)} />}
      </div>
      {shown.map((one, at) => <Shown key={at} {...one} {...(source && one.text && { kind: "text" })} size={size} />)}
    </div>
  );
}

type Given = Preview & { size: number };

const none = (type: string, size: number) => <p class="aside">{strings.panel.noPreview(type || strings.panel.unknownType, bytes(size))}</p>;

const VIEWS: Readonly<Record<Preview["kind"], (given: Given) => ComponentChildren>> = {
  none: ({ type, size }) => none(type, size),
  link: ({ text }) => <p><Link href={text}>{text}</Link></p>,
  image: ({ bytes, type, size }) => (
    <Image picture={{ bytes: bytes!, type, name: strings.panel.image }} kind="sheet" otherwise={none(type, size)} />
  ),
  html: ({ text }) => <Framed text={text} />,
  markdown: ({ text }) => <Markdown text={text} live />,
  text: ({ text }) => <pre class="sheet" tabIndex={0} dir="auto">{text}</pre>,
};

function Shown(given: Given) {
  return <>{VIEWS[given.kind](given)}{given.cut && <p class="aside">{strings.panel.cut(bytes(given.size))}</p>}</>;
}

/** A page without scripts and in an origin of its own. */
function Framed({ text }: { text: string }) {
  return <iframe class="sheet" sandbox="" src={useAddress(text, "text/html;charset=utf-8")} title={strings.panel.html} />;
}

/** Return the parts of a version. Older ones, which are not with the session, are loaded. */
function useContent(artifact: Artifact, number: number, known: readonly Part[]): readonly Content[] {
  const [loaded, setLoaded] = useState<Readonly<Record<number, readonly Content[]>>>({});
  const missing = !known.length && number < artifact.versions.length && !loaded[number];
  useEffect(() => {
    if (!missing) return;
    const { filename = "" } = artifact.versions.at(-1)?.parts[0] ?? {};
    void read(artifact, number, async (blob) => {
      const bytes = { bytes: new Uint8Array(await blob.arrayBuffer()), mediaType: blob.type };
      setLoaded({ [number]: [{ filename, ...(blob.type.startsWith("text/plain") ? { text: await blob.text() } : bytes) }] });
    });
  }, [missing, number]);
  return loaded[number] ?? known;
}

/** Read a version of an artifact as a file, and use it; say why that did not work. */
function read({ taskId, id }: Artifact, version: number, use: (blob: Blob) => unknown): Promise<unknown> {
  return api.artifact(taskId, id, version).then(use).catch(toastError(strings.panel.download));
}
