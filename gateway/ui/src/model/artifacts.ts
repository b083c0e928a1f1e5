/** The artifacts of a conversation: pieces are added in place, and what a view reads is made when it is asked for. */

import type { Piece } from "./events";
import type { Artifact, ArtifactVersion, Part } from "./view";

interface Growing {
  parts: Part[];
  size: number;
  complete: boolean;
}

interface Made {
  readonly taskId: string;
  readonly id: string;
  name: string;
  description: string;
  versions: Growing[];
  read: Artifact | null;
}

const encoder = new TextEncoder();

export class Artifacts {
  readonly #made = new Map<string, Made>();
  #list: readonly Artifact[] | null = null;

  /** Return all artifacts, in the order in which they were begun. */
  get list(): readonly Artifact[] {
    return (this.#list ??= [...this.#made.values()].map((made) => (made.read ??= read(made))));
  }

  /** Take a piece of a stream: a further piece of the current version if it appends, else a new version. */
  add(taskId: string, piece: Piece, append: boolean, last: boolean): void {
    const made = this.#named(taskId, piece);
    let version = made.versions.at(-1);
    if (!append || !version) made.versions.push((version = { parts: [], size: 0, complete: false }));
    for (const part of piece.parts) grow(version, part);
    version.complete = last;
  }

  /**
   * Take an artifact as a whole, as its newest version. `versions`: how many there are; older ones that are not known are
   * empty, to be loaded when they are wanted.
   */
  put(taskId: string, piece: Piece, complete: boolean, versions = 1): void {
    const made = this.#named(taskId, piece);
    const version: Growing = { parts: [], size: 0, complete };
    for (const part of piece.parts) grow(version, part);
    while (made.versions.length < versions - 1) made.versions.unshift({ parts: [], size: 0, complete: true });
    if (made.versions.length >= versions) made.versions.pop();
    made.versions.push(version);
  }

  /** Mark the versions of a task that has ended as complete. */
  settle(taskId: string): void {
    for (const made of this.#made.values()) {
      const version = made.versions.at(-1);
      if (made.taskId !== taskId || !version || version.complete) continue;
      version.complete = true;
      this.#touch(made);
    }
  }

  /** Remove the artifacts of a task whose id is not in `ids`. */
  keep(taskId: string, ids: ReadonlySet<string>): void {
    for (const [key, made] of this.#made) if (made.taskId === taskId && !ids.has(made.id)) this.#made.delete(key);
    this.#list = null;
  }

  #named(taskId: string, piece: Piece): Made {
    const key = `${taskId}/${piece.id}`;
    const known = this.#made.get(key);
    const made = known ?? { taskId, id: piece.id, name: "", description: "", versions: [], read: null };
    made.name = piece.name || made.name;
    made.description = piece.description || made.description;
    this.#made.set(key, made);
    this.#touch(made);
    return made;
  }

  #touch(made: Made): void {
    made.read = null;
    this.#list = null;
  }
}

/** Return the bytes of a part: of its text, or of what its base64 stands for. */
export function sizeOf(part: Part): number {
  if (part.text !== undefined) return encoder.encode(part.text).length;
  if (part.raw !== undefined) return Math.floor((part.raw.replace(/=+$/, "").length * 3) / 4);
  return part.data === undefined ? 0 : encoder.encode(JSON.stringify(part.data)).length;
}

/** Add a part; adjacent plain texts are joined, so that an artifact of many pieces stays small. */
function grow(version: Growing, part: Part): void {
  version.size += sizeOf(part);
  const last = version.parts.at(-1);
  if (last && plain(last) && plain(part)) version.parts[version.parts.length - 1] = { ...last, text: `${last.text}${part.text}` };
  else version.parts.push(part);
}

function plain(part: Part): boolean {
  return part.text !== undefined && !part.metadata;
}

function read({ taskId, id, name, description, versions }: Made): Artifact {
  const copy = (version: Growing): ArtifactVersion => ({ ...version, parts: [...version.parts] });
  return { taskId, id, name, description, versions: versions.map(copy) };
}
