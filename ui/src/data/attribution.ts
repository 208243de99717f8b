// Contributions of input tokens to hidden vectors; page/panels.py writes them.

import type { Embedded } from "./packing";

export interface Attribution {
  layers: number[];
  targets: number[]; // the tokens whose vectors were attributed
  contributions: Embedded; // by layer, of (target, input token)
  certain: boolean[][]; // by layer and target: whether the main contributor is certain
  sentences: string[];
  corpus: { name: string; medians: number[] } | null; // median self-contribution over a corpus, by layer
}
