// What is known of a text before any map is computed; page/summary.py and page/panels.py write it.

export interface Tokens {
  texts: string[];
  special: boolean[];
  words: (number | null)[] | null; // index of the word that a token is part of
  word_texts: string[];
}

/** By layer, then head; null where a number is undefined. */
export type PerHead = (number | null)[][];

export const COLORINGS = ["readable", "contributing", "certified", "sink_share", "null_mass", "correlation", "nullity", "certified_rows"] as const;
export type Coloring = (typeof COLORINGS)[number];

/** Certified bounds of one row: with the same output of the head, no weight is outside [low, high]. */
export interface Certificate {
  layer: number;
  head: number;
  query: number;
  raw: number[];
  low: (number | null)[];
  high: (number | null)[];
  sentence: string;
  alternatives: Record<string, { label: string; row: number[]; total_variation: number }>;
  patched_run: PatchedRun | null;
}

export interface PatchedRun {
  alternative: string;
  patched: number;
  control: number;
  sentence: string;
}

/** How much of the attention passes the tests of a reading. */
export interface Reading {
  sentences: string[];
  numbers: Partial<Record<Coloring, PerHead>>;
}

export interface Summary {
  model: string;
  kind: string;
  kinds: string[];
  text: string | null;
  pair: string | null;
  queries: Tokens;
  keys: Tokens | null; // null: the same as queries
  layers: number[];
  heads: number;
  numbers: Partial<Record<Coloring, PerHead>>;
  terms: Record<string, string>; // the meaning of each map and number
  certificates: Certificate[];
  window: number | null; // rows that can be fetched at once; null: all
  first: { layer: number; head: number; query?: number; color?: Coloring }; // what is selected first
}

export interface CorpusSummary {
  model: string;
  corpus: string;
  layers: number[];
  heads: number;
  numbers: Record<string, PerHead>;
  terms: Record<string, string>;
}
