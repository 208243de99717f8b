// Where a page gets its data: from elements of the page itself, or from the server that sent it.

import type { Attribution } from "./attribution";
import { fromBase64 } from "./packing";
import type { Summary } from "./summary";

export interface Source {
  summary: Summary;
  layer(number: number, from: number): Promise<Uint8Array>; // from: the first row, if not all are fetched at once
  attribution(token: number): Promise<Attribution | null>; // to this token, or to all; null: not computed
  certified(layer: number, head: number): Promise<Float32Array | null>; // by query and key: the certified fraction of each weight, NaN where unknown
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

interface Bounds {
  starts: Record<string, number>;
  content: string;
}

/** The certified fractions of a head's large weights, as page/bounds.py packs them: NaN for all others. */
function certifiedFractions(bounds: Bounds | null, layer: number, head: number, { queries, keys }: Summary): Float32Array | null {
  const start = bounds?.starts[`${layer} ${head}`];
  if (start === undefined) return null;
  const bytes = fromBase64(bounds!.content);
  const [rows, columns] = [queries.texts.length, (keys ?? queries).texts.length];
  const fractions = new Float32Array(rows * columns).fill(NaN);
  for (let row = 0, at = start; row < rows; row++) {
    const count = bytes[at++];
    for (let index = 0; index < count; index++) {
      const key = bytes[at + 2 * index] + 256 * bytes[at + 2 * index + 1];
      fractions[row * columns + key] = bytes[at + 2 * count + index] / 255;
    }
    at += 3 * count;
  }
  return fractions;
}

/** The data in a report or a notebook; null in a page without any. */
export function embeddedSource(): Source | null {
  const summary = embeddedJson<Summary>("summary");
  return summary && {
    summary,
    layer: async (number) => fromBase64((await parsedText(`layer-${number}`))!),
    certified: async (layer, head) => certifiedFractions(JSON.parse((await parsedText("bounds")) ?? "null"), layer, head, summary),
    attribution: async () => JSON.parse((await parsedText("attribution")) ?? "null"),
  };
}
