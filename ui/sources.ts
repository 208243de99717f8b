// The hash of everything that the page is built from; tests compare it with the sources, so that they need no node.

import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

export function hashSources(root: string): string {
  const names = ["index.html", "package.json", "package-lock.json", "sources.ts", "tsconfig.json", "vite.config.ts"];
  const files = [...names, ...readdirSync(join(root, "src")).map((name) => `src/${name}`)].sort();
  const digest = createHash("sha256");
  for (const name of files) digest.update(`${name}\0`).update(readFileSync(join(root, name))).update("\0");
  return digest.digest("hex");
}
