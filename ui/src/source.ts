// Where a page gets what it shows: from itself, from the server that opened it, or from a notebook.

import { fromBase64 } from "./packing";
import type { Summary } from "./summary";

export interface Source {
  summary: Summary;
  layer(number: number): Promise<Uint8Array>;
}

export function embeddedText(id: string): string | null {
  return document.getElementById(id)?.textContent ?? null;
}

/** What a report holds; null in a page without any. */
export function embedded(): Source | null {
  const text = embeddedText("identiformer-summary");
  if (text === null) return null;
  return {
    summary: JSON.parse(text),
    layer: async (number) => {
      const found = () => embeddedText(`identiformer-layer-${number}`);
      // The first layer stands before this script; the others may still have to be read.
      if (found() === null && document.readyState === "loading")
        await new Promise((resume) => document.addEventListener("DOMContentLoaded", resume, { once: true }));
      return fromBase64(found()!);
    },
  };
}
