// Where a page gets its data: from elements of the page itself, or from the server that sent it.

import type { Attribution } from "./attribution";
import { fromBase64 } from "./packing";
import type { LayerMaps, Summary } from "./summary";

export interface Source {
  summary: Summary;
  layer(number: number, from: number): Promise<Uint8Array>; // from: the first row, if not all are fetched at once
  readonly maps: Map<string, LayerMaps>; // other maps, as far as they are computed
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

/** Certified fractions that the server sent, one byte per weight: NaN in rows that were not read. */
export function unpackFractions(bytes: Uint8Array, { reading, queries }: Summary): Float32Array {
  const keys = bytes.length / queries.texts.length;
  const read = new Set(reading!.rows);
  return Float32Array.from(bytes, (share, index) => (read.has(Math.floor(index / keys)) ? share / 255 : NaN));
}

/** What an explorer's page had computed when it was saved. */
export interface Saved {
  fractions: Record<string, string>; // by layer and head: certified fractions as the server sent them
  attributions: Record<string, Attribution>; // by token
  maps: Record<string, LayerMaps>;
}

/** The data in a report or a notebook, or of a saved page; null in a page without any. */
export function embeddedSource(): Source | null {
  const summary = embeddedJson<Summary>("summary");
  const saved = embeddedJson<Saved>("saved");
  return summary && {
    summary,
    maps: new Map(Object.entries(saved?.maps ?? {})),
    layer: async (number) => fromBase64((await parsedText(`layer-${number}`))!),
    certified: async (layer, head) => saved ? unpackFractions(fromBase64(saved.fractions[`${layer} ${head}`]), summary) : certifiedFractions(JSON.parse((await parsedText("bounds")) ?? "null"), layer, head, summary),
    attribution: async (token) => saved ? (saved.attributions[token] ?? null) : JSON.parse((await parsedText("attribution")) ?? "null"),
  };
}
