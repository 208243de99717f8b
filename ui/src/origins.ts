// Where hidden vectors came from; page/attribution.py writes it.

import { fromBase64, type Packed, unpack } from "./packing";

export interface Origins {
  layers: number[];
  shares: Packed;
  content: string;
  certain: boolean[][]; // by layer and token: whether its main contributor is
  error: number;
  corpus: { name: string; medians: number[] } | null; // what tokens of a corpus keep of themselves, by layer
}

/** By layer, the shares of (token, input token). */
export function sharesOf(origins: Origins): Float32Array[] {
  const bytes = fromBase64(origins.content);
  return origins.layers.map((_, layer) => unpack(bytes, 0, origins.shares, layer));
}
