// What is selected, and how it is drawn: all of it is in the address, so that a link restores the exact view.

import type { Kind } from "./data/maps";
import { type Coloring, COLORINGS } from "./data/summary";

export interface View {
  layer: number; // 0: all layers averaged
  head: number; // -1: all heads averaged
  query: number | null; // the selected row, by the position of its token
  from: number; // the first row in view, if not all are
  words: boolean;
  special: boolean;
  gamma: number;
  scale: "shared" | "separate";
  color: Coloring;
  map: "all" | Kind;
  find: string;
  theme: "auto" | "light" | "dark";
}

/** Changes part of the view; a function gets the view before, because keys may be pressed faster than the page renders. */
export type Change = (change: Partial<View> | ((before: View) => Partial<View>)) => void;

export const FIRST: View = {
  layer: 1, head: 0, query: null, from: 0, words: false, special: true, gamma: 0.5, scale: "shared", color: "null_mass", map: "all", find: "",
  theme: "auto",
};

const ALWAYS = ["layer", "head", "color"]; // what a page opens with depends on the text

const CHOICES: Partial<Record<keyof View, readonly string[]>> = {
  scale: ["shared", "separate"],
  color: COLORINGS,
  map: ["all", "raw", "effective", "null"],
  theme: ["auto", "light", "dark"],
};

/** The first row in view such that a row is among them; unchanged if it already is. */
export function windowFor(position: number, from: number, window: number, count: number): number {
  if (position >= from && position < from + window) return from;
  return Math.max(0, Math.min(position - Math.floor(window / 2), count - window));
}

export function writeHash(view: View, more: Record<string, string> = {}): string {
  const entries = Object.entries(view).filter(([name, value]) => ALWAYS.includes(name) || value !== FIRST[name as keyof View]);
  return "#" + new URLSearchParams([...entries.map(([name, value]) => [name, String(value)]), ...Object.entries(more)]).toString();
}

/** The view in an address; whatever is missing or invalid stays as before. */
export function readHash(hash: string, before: View): View {
  const parameters = new URLSearchParams(hash.replace(/^#/, ""));
  const view: Record<string, unknown> = { ...before };
  for (const [name, value] of parameters) {
    if (!(name in FIRST)) continue;
    const initial = FIRST[name as keyof View];
    const choices = CHOICES[name as keyof View];
    if (choices) {
      if (choices.includes(value)) view[name] = value;
    } else if (typeof initial === "boolean") view[name] = value === "true";
    else if (name === "find") view[name] = value;
    else if (value.trim() !== "" && Number.isFinite(Number(value))) view[name] = Number(value);
  }
  return view as unknown as View;
}
