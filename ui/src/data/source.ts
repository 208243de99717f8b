// Where a page gets its data: from elements of the page itself, or from the server that sent it.

import type { Attribution } from "./attribution";
import { fromBase64 } from "./packing";
import type { Summary } from "./summary";

export interface Source {
  summary: Summary;
  layer(number: number, from: number): Promise<Uint8Array>; // from: the first row, if not all are fetched at once
  attribution(): Promise<Attribution | null>; // null: not computed
}

/** The JSON in an element of the page; null if there is no such element. */
export function embeddedJson<Value>(name: string): Value | null {
  return JSON.parse(embeddedText(name) ?? "null");
}

function embeddedText(name: string): string | null {
  return document.getElementById(`identiformer-${name}`)?.textContent ?? null;
}

/** Text in the page, part of which the browser may not have parsed yet. */
async function parsedText(name: string): Promise<string | null> {
  if (embeddedText(name) === null && document.readyState === "loading")
    await new Promise((resume) => document.addEventListener("DOMContentLoaded", resume, { once: true }));
  return embeddedText(name);
}

/** The data in a report or a notebook; null in a page without any. */
export function embeddedSource(): Source | null {
  const summary = embeddedJson<Summary>("summary");
  return summary && {
    summary,
    layer: async (number) => fromBase64((await parsedText(`layer-${number}`))!),
    attribution: async () => JSON.parse((await parsedText("attribution")) ?? "null"),
  };
}
