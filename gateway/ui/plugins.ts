/** What the build writes beside the page: the licences of the libraries in it, and the files compressed. */

import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import type { Plugin } from "vite";

const COMPRESSED = /\.(?:js|css|svg|txt)$/;
const LICENCE = /^(?:licen[cs]e|notice|copying)/i;

/** Write `licenses.txt`, with the licence of each library of which code is in the page. Fail if one has none. */
export function licences(): Plugin {
  return {
    name: "licences",
    generateBundle(_, bundle) {
      const folders = new Set<string>();
      for (const file of Object.values(bundle)) {
        const modules = file.type === "chunk" ? file.moduleIds : file.originalFileNames;
        for (const id of modules) {
          const folder = /^.*\/node_modules\/(?:@[^/]+\/)?[^/]+(?=\/)/.exec(id)?.[0];
          if (folder) folders.add(folder);
        }
      }
      const texts = [...folders].map(licenceOf).sort();
      this.emitFile({ type: "asset", fileName: "licenses.txt", source: texts.join(`\n${"-".repeat(72)}\n\n`) });
    },
  };
}

/** Write each text once more, compressed, if that makes it smaller: the gateway compresses nothing itself. */
export function compressed(): Plugin {
  return {
    name: "compressed",
    writeBundle({ dir = "" }, bundle) {
      for (const name of Object.keys(bundle).filter((each) => COMPRESSED.test(each))) {
        const content = readFileSync(join(dir, name));
        const smaller = gzipSync(content, { level: 9 });
        if (smaller.length < content.length) writeFileSync(join(dir, `${name}.gz`), smaller);
      }
    },
  };
}

function licenceOf(folder: string): string {
  const { name, version, license } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8")) as Record<string, string>;
  const files = existsSync(folder) ? readdirSync(folder).filter((file) => LICENCE.test(file)).sort() : [];
  if (!files.length) throw new Error(`${name} has no file with its licence`);
  return [`${name} ${version} (${license})\n`, ...files.map((file) => readFileSync(join(folder, file), "utf8"))].join("\n");
}
