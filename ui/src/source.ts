// Where a page gets what it shows: from itself, from the server that opened it, or from a notebook.

import type { Origins } from "./origins";
import { fromBase64 } from "./packing";
import type { Summary } from "./summary";

export interface Source {
  summary: Summary;
  layer(number: number, from: number): Promise<Uint8Array>; // from: the first row, where not all can be had at once
  origins(): Promise<Origins | null>; // null: not known yet
}

export function embeddedText(id: string): string | null {
  return document.getElementById(id)?.textContent ?? null;
}

/** What stands in the page, which may still have to be read. */
async function awaited(id: string): Promise<string | null> {
  if (embeddedText(id) === null && document.readyState === "loading")
    await new Promise((resume) => document.addEventListener("DOMContentLoaded", resume, { once: true }));
  return embeddedText(id);
}

/** What a report holds; null in a page without any. */
export function embedded(): Source | null {
  const text = embeddedText("identiformer-summary");
  if (text === null) return null;
  return {
    summary: JSON.parse(text),
    layer: async (number) => fromBase64((await awaited(`identiformer-layer-${number}`))!),
    origins: async () => JSON.parse((await awaited("identiformer-origins")) ?? "null"),
  };
}
