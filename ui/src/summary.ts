// What is known of a text before any map is made; page/summary.py writes it.

export interface Tokens {
  texts: string[];
  special: boolean[];
  words: (number | null)[] | null; // which word a token is a piece of
  word_texts: string[];
}

/** By layer, then head; null where a number is not known. */
export type PerHead = (number | null)[][];

export const COLOURINGS = {
  null_mass: "share of a row that the output cannot see",
  correlation: "of raw with effective attention",
  nullity: "dimensions of a row that the output cannot see",
  certified: "of four rows drawn by chance, how many have a largest weight that is certain to be the largest",
} as const;
export type Coloring = keyof typeof COLOURINGS;

/** What is certain of one row: with the same output no weight leaves [low, high]. */
export interface Certificate {
  layer: number;
  head: number;
  query: number;
  tolerance: number;
  raw: number[];
  low: (number | null)[];
  high: (number | null)[];
  largest: number;
  argmax_certified: boolean;
  rival: number;
  alternatives: Record<string, { row: number[]; total_variation: number }>;
  rerun?: Rerun;
}

export interface Rerun {
  alternative: string;
  patched: number;
  control: number;
  floor: number;
  scale: number;
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
  certificates: Certificate[];
  window: number | null; // rows that can be had at once; null: all
  first: { layer: number; head: number; query?: number }; // what to look at first
}
