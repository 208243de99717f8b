// Contributions of input tokens to hidden vectors; page/panels.py writes them.

import { fromBase64, type Packed, unpack } from "./packing";

export interface Attribution {
  layers: number[];
  contributions: Packed;
  content: string;
  certain: boolean[][]; // by layer and token: whether the main contributor is certain
  sentences: string[];
  corpus: { name: string; medians: number[] } | null; // median self-contribution over a corpus, by layer
}

/** By layer, the contributions of (token, input token). */
export function contributionsOf(attribution: Attribution): Float32Array[] {
  const bytes = fromBase64(attribution.content);
  return attribution.layers.map((_, layer) => unpack(bytes, 0, attribution.contributions, layer));
}
