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
    const versions = this.#versions(taskId, piece);
    const current = append && versions.at(-1);
    this.#set(taskId, piece, [...(current ? versions.slice(0, -1) : versions), grown(current || EMPTY, piece, last)]);
  }

  /**
   * Take an artifact as a whole, as its newest version. `count`: how many versions there are; older ones that are not known
   * are empty, to be loaded when they are wanted.
   */
  put(taskId: string, piece: Piece, complete: boolean, count = 1): void {
    const known = this.#versions(taskId, piece);
    const unknown = count - 1 - known.length;
    const older = unknown < 0 ? known.slice(0, -1) : [...Array<ArtifactVersion>(unknown).fill(EMPTY), ...known];
    this.#set(taskId, piece, [...older, grown(EMPTY, piece, complete)]);
  }

  /** Mark the versions of a task that has ended as complete. */
  settle(taskId: string): void {
    for (const one of this.list) {
      const version = one.versions.at(-1);
      if (one.taskId === taskId && version && !version.complete)
        this.#set(taskId, one, one.versions.with(-1, { ...version, complete: true }));
    }
  }

  /** Remove the artifacts of a task whose id is not in `ids`. */
  keep(taskId: string, ids: ReadonlySet<string>): void {
    for (const [key, one] of this.#all) if (one.taskId === taskId && !ids.has(one.id)) this.#all.delete(key);
    this.#list = null;
  }

  #versions(taskId: string, { id }: Piece): readonly ArtifactVersion[] {
    return this.#all.get(`${taskId}/${id}`)?.versions ?? [];
  }

  #set(taskId: string, { id, name, description }: Omit<Piece, "parts">, versions: readonly ArtifactVersion[]): void {
    const key = `${taskId}/${id}`;
    const known = this.#all.get(key);
    const names = { name: name || (known?.name ?? ""), description: description || (known?.description ?? "") };
    this.#all.set(key, { taskId, id, ...names, versions });
    this.#list = null;
  }
}

/** Return the bytes of a part: of its text, or of what its base64 stands for. */
export function sizeOf(part: Part): number {
  if (part.text !== undefined) return encoder.encode(part.text).length;
  if (part.raw !== undefined) return Math.floor((part.raw.replace(/=+$/, "").length * 3) / 4);
  return part.data === undefined ? 0 : encoder.encode(JSON.stringify(part.data)).length;
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
