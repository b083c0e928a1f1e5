/** The artifacts of a conversation. Each is replaced by another object when it changes. */

import type { Piece } from "./events";
import type { Artifact, ArtifactVersion, Part } from "./view";

const EMPTY: ArtifactVersion = { parts: [], size: 0 };
const encoder = new TextEncoder();

export class Artifacts {
  /** Those of each task, in the order in which they were begun; another map when one of them changes. */
  of: ReadonlyMap<string, ReadonlyMap<string, Artifact>> = new Map();

  /**
   * Take a piece of a stream: a further piece of the current version if it appends, else a new version. The place of the
   * artifact is that of its first piece.
   */
  add(taskId: string, piece: Piece, append: boolean, complete: boolean): void {
    const { after = piece.after } = this.of.get(taskId)?.get(piece.id) ?? {};
    this.#change(taskId, { ...piece, after }, ({ versions }) => {
      const current = append && versions.at(-1);
      return { versions: [...(current ? versions.slice(0, -1) : versions), grown(current || EMPTY, piece)], complete };
    });
  }

  /**
   * Take an artifact as a whole, as its newest version. `count`: how many versions there are; 0: that is not known, so that
   * it is the only one, unless it equals the last one. Older ones that are not known are empty, to be loaded when wanted.
   */
  put(taskId: string, piece: Piece, complete: boolean, count = 0): void {
    this.#change(taskId, piece, ({ versions, numbered }) => {
      const whole = grown(EMPTY, piece);
      const same = versions.at(-1)?.size === whole.size && (!count || (numbered && versions.length === count));
      const older = same ? versions.slice(0, -1) : Array<ArtifactVersion>(Math.max(0, count - 1)).fill(EMPTY);
      return { versions: [...older, whole], numbered: count > 0 || (same && numbered), complete };
    });
  }

  /** Note where an artifact stands, if it is known. */
  place(taskId: string, piece: Piece): void {
    if (this.of.get(taskId)?.has(piece.id)) this.#change(taskId, piece, () => ({}));
  }

  /** Mark the artifacts of a task that has ended as complete. */
  settle(taskId: string): void {
    for (const one of this.of.get(taskId)?.values() ?? []) if (!one.complete) this.#change(taskId, one, () => ({ complete: true }));
  }

  /** Remove the artifacts of a task whose id is not in `ids`. */
  keep(taskId: string, ids: ReadonlySet<string>): void {
    this.of = new Map(this.of).set(taskId, new Map([...(this.of.get(taskId) ?? [])].filter(([id]) => ids.has(id))));
  }

  /** Change an artifact, which may be a new one, and take the names that are given. */
  #change(taskId: string, { id, name, description, after, at }: Omit<Piece, "parts">, change: (known: Artifact) => Partial<Artifact>): void {
    const all = this.of.get(taskId);
    const known = all?.get(id) ?? { taskId, id, name, description, after, at, versions: [], numbered: true, complete: false };
    const told = { name: name || known.name, description: description || known.description };
    const one = { ...known, ...told, after: after || known.after, at: at || known.at, ...change(known) };
    this.of = new Map(this.of).set(taskId, new Map(all).set(id, one));
  }
}

/** Return the bytes of a part: of its text, of its content in base64, or of its JSON. */
export function sizeOf(part: Part): number {
  if (part.raw !== undefined) return Math.floor((part.raw.replace(/=+$/, "").length * 3) / 4);
  return encoder.encode(part.text ?? JSON.stringify(part.data ?? part.unknown)).length;
}

/** Return a version with a further piece; adjacent plain texts are joined, so that an artifact of many pieces stays small. */
function grown(version: ArtifactVersion, piece: Piece): ArtifactVersion {
  const parts = [...version.parts];
  for (const part of piece.parts) {
    const last = parts.at(-1);
    if (last && plain(last) && plain(part)) parts[parts.length - 1] = { ...last, text: `${last.text}${part.text}` };
    else parts.push(part);
  }
  return { parts, size: piece.parts.reduce((sum, part) => sum + sizeOf(part), version.size) };
}

function plain(part: Part): boolean {
  return part.text !== undefined && !part.metadata;
}
