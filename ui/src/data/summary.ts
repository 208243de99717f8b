// What is known of a text before any map is computed; page/summary.py and page/panels.py write it.

import type { View } from "../view";
import type { Embedded } from "./packing";

export interface Tokens {
  texts: string[];
  special: boolean[];
  words: (number | null)[] | null; // index of the word that a token is part of
  word_texts: string[];
}

/** By layer, then head; null where a number is undefined. */
export type PerHead = (number | null)[][];

export const COLORINGS = ["category", "maps", "readable", "contributing", "certified", "sink_share", "null_mass", "correlation", "nullity", "certified_rows"] as const;
export type Coloring = (typeof COLORINGS)[number];

/** Certified bounds of one row: with the same output of the head, no weight is outside [low, high]. */
export interface Certificate {
  layer: number;
  head: number;
  query: number;
  raw: number[];
  low: (number | null)[];
  high: (number | null)[];
  contribution: (number | null)[];
  sentences: string[];
  alternatives: Record<string, Alternative>;
  patched_run: PatchedRun | null;
}

/** Another row with the same output. */
export interface Alternative {
  label: string;
  row: number[];
  total_variation: number;
}

export interface PatchedRun {
  alternative: string;
  patched: number;
  control: number;
  sentences: string[];
}

/** How much of the attention passes the tests of a reading; page/reading.py writes it. */
export interface Reading {
  sentences: string[]; // on the text
  rows: number[]; // that were read: of an answer, those that predict it
  categories: (Category | null)[][]; // by layer, then head; null: not computed
  head_sentences: string[][]; // by layer, then head
  numbers: Partial<Record<Coloring, PerHead>>;
  own: (number | null)[][]; // by layer and key: the self-contribution of the key's vector
  sinks: number[][]; // by layer, then head: the position of the sink, or -1
  certified: boolean[][]; // by layer, then head: whether bounds were computed
}

/** What most of a head's weight is. */
export const CATEGORIES = ["readable", "contributing", "mixed", "noncontributing", "undetermined"] as const;
export type Category = (typeof CATEGORIES)[number];

/** What a language model predicts at one position before and after a patched run: tokens and their probabilities. */
export interface Prediction {
  position: number;
  before: [string, number][];
  after: [string, number][];
  sentence: string;
}

/** The model run with weight of one row moved from one key to another. */
export interface MovedWeight {
  alternative: boolean; // whether the head's output stays the same
  head_change: number;
  tolerance: number;
  patched: number;
  control: number;
  sentences: string[];
  predictions: Prediction[];
}

/** Which pattern each head follows. */
export interface Patterns {
  dominant: string[][]; // by layer, then head; "none" if no share is large enough
  shares: Record<string, PerHead>;
  sentence: string;
  meanings: Record<string, string>;
  dominant_share: number;
}

/** What a language model wrote, token by token. */
export interface AnswerSteps {
  prompt: string; // what the user typed
  start: number; // the position of the first token that the model wrote
  spans: string[]; // which part of the prompt or answer each token is in
  interrupted: boolean;
  steps: { token: string; position: number; predicted_at: number; probability: number }[];
  sources: StepSources | null; // null: not computed
}

/** What each token of an answer drew on; readings/answer.py writes it. */
export interface StepSources {
  method: string;
  output: string;
  steps: { shares: number[]; prompt_share: number; sources: { token: string; position: number; share: number; category: string | null }[] }[];
}

/** The picture that a vision model reads, and its patches. */
export interface PatchedImage {
  picture: string; // a data address
  rows: number;
  columns: number;
  first: number; // the position of the first patch
}

/** A map of each layer, computed from all its heads. */
export interface MapChoice {
  name: string;
  title: string;
  formula: string;
  paper: string;
}

/** By layer. */
export interface LayerMaps {
  raw: Embedded;
  other: Embedded;
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
  patterns: Patterns | null;
  image: PatchedImage | null;
  answer: AnswerSteps | null;
  terms: Record<string, string>; // the meaning of each map and number
  certificates: Certificate[];
  maps: MapChoice[]; // that can be shown next to raw attention
  window: number | null; // rows that can be fetched at once; null: all
  reading: Reading | null;
  determined: string; // whether outputs determine weights, in a sentence
  ambiguous_from: number | null; // the row from which on all heads have a null space, if some rows have none
  first: { layer: number; head: number; query?: number; color?: Coloring }; // what is selected first
  view?: View; // in which the page was saved
  attribution_seconds?: number; // about how long a server takes to attribute one token
  why: string; // why that head is selected first
}

export interface CorpusSummary {
  model: string;
  corpus: string;
  layers: number[];
  heads: number;
  numbers: Record<string, PerHead>;
  terms: Record<string, string>;
}
