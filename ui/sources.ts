// The hash of everything that the page is built from; a test compares it with the sources, so that tests need no Node.

import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { join, relative } from "node:path";

export function hashSources(root: string): string {
  const names = ["index.html", "package.json", "package-lock.json", "sources.ts", "tsconfig.json", "vite.config.ts"];
  const sources = readdirSync(join(root, "src"), { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  const files = [...names, ...sources.map((entry) => relative(root, join(entry.parentPath, entry.name)).replaceAll("\\", "/"))].sort();
  const digest = createHash("sha256");
  for (const name of files) digest.update(`${name}\0`).update(readFileSync(join(root, name))).update("\0");
  return digest.digest("hex");
}
