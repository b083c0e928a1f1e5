/** The artifacts of a conversation. Each is replaced by another object when it changes. */

import type { Piece } from "./events";
import type { Artifact, ArtifactVersion, Part } from "./view";

const EMPTY: ArtifactVersion = { parts: [], size: 0, complete: true };
const encoder = new TextEncoder();

export class Artifacts {
  readonly #all = new Map<string, Artifact>();
  #list: readonly Artifact[] | null = null;

  /** Return all artifacts, in the order in which they were begun. */
  get list(): readonly Artifact[] {
    return (this.#list ??= [...this.#all.values()]);
  }

  /** Take a piece of a stream: a further piece of the current version if it appends, else a new version. */
  add(taskId: string, piece: Piece, append: boolean, last: boolean): void {
    const one = this.#named(taskId, piece);
    const current = append && one.versions.at(-1);
    const before = current ? one.versions.slice(0, -1) : one.versions;
    this.#set({ ...one, versions: [...before, grown(current || EMPTY, piece, last)] });
  }

  /**
   * Take an artifact as a whole, as its newest version. `count`: how many versions there are; 0: that is not known, so that
   * it is the only one, unless it equals the last one. Older ones that are not known are empty, to be loaded when wanted.
   */
  put(taskId: string, piece: Piece, complete: boolean, count = 0): void {
    const one = this.#named(taskId, piece);
    const { versions, numbered } = one;
    const whole = grown(EMPTY, piece, complete);
    const same = versions.at(-1)?.size === whole.size && (!count || (numbered && versions.length === count));
    const older = same ? versions.slice(0, -1) : Array<ArtifactVersion>(Math.max(0, count - 1)).fill(EMPTY);
    this.#set({ ...one, versions: [...older, whole], numbered: count > 0 || (same && numbered) });
  }

  /** Mark the versions of a task that has ended as complete. */
  settle(taskId: string): void {
    for (const one of this.list) {
      const version = one.versions.at(-1);
      if (one.taskId === taskId && version && !version.complete)
        this.#set({ ...one, versions: one.versions.with(-1, { ...version, complete: true }) });
    }
  }

  /** Remove the artifacts of a task whose id is not in `ids`. */
  keep(taskId: string, ids: ReadonlySet<string>): void {
    for (const [key, one] of this.#all) if (one.taskId === taskId && !ids.has(one.id)) this.#all.delete(key);
    this.#list = null;
  }

  /** Return the artifact of a piece as it was, with the names that the piece gives. */
  #named(taskId: string, { id, name, description }: Piece): Artifact {
    const known = this.#all.get(`${taskId}/${id}`) ?? { taskId, id, name, description, versions: [], numbered: true };
    return { ...known, name: name || known.name, description: description || known.description };
  }

  #set(one: Artifact): void {
    this.#all.set(`${one.taskId}/${one.id}`, one);
    this.#list = null;
  }
}

/** Return the bytes of a part: of its text, or of what its base64 stands for. */
export function sizeOf(part: Part): number {
  if (part.raw !== undefined) return Math.floor((part.raw.replace(/=+$/, "").length * 3) / 4);
  return encoder.encode(part.text ?? JSON.stringify(part.data)).length;
}

/** Return a version with a further piece; adjacent plain texts are joined, so that an artifact of many pieces stays small. */
function grown(version: ArtifactVersion, piece: Piece, complete: boolean): ArtifactVersion {
  const parts = [...version.parts];
  for (const part of piece.parts) {
    const last = parts.at(-1);
    if (last && plain(last) && plain(part)) parts[parts.length - 1] = { ...last, text: `${last.text}${part.text}` };
    else parts.push(part);
  }
  return { parts, size: piece.parts.reduce((sum, part) => sum + sizeOf(part), version.size), complete };
}

function plain(part: Part): boolean {
  return part.text !== undefined && !part.metadata;
}
