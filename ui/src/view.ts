// What is selected, and how it is drawn: all of it is in the address, so that a link restores the exact view.

import type { Kind } from "./data/maps";
import { type Coloring, COLORINGS } from "./data/summary";

export const SHADES = ["raw", "contribution", "readable"] as const;
export type Shade = (typeof SHADES)[number];

export const AGAINST = ["head", "text", "model"] as const;

export const MAP_CHOICES: Kind[] = ["contribution", "readable", "effective", "null"];

export interface View {
  layer: number; // 0: all layers averaged
  head: number; // -1: all heads averaged
  query: number | null; // the selected row, by the position of its token
  from: number; // the first row in view, if not all are
  words: boolean;
  special: boolean;
  sink: boolean; // whether the head's sink is drawn
  shade: Shade; // what the text is shaded by
  gamma: number;
  scale: "shared" | "separate";
  color: Coloring;
  map: Kind; // the map next to raw attention
  sort: string; // the column that the table is sorted by
  side: "row" | "column"; // what a selected token shows: where it attends, or what attends to it
  pattern: string; // heads are listed that follow it; empty: any
  category: string; // and of which most weight is in it; empty: any
  against: (typeof AGAINST)[number]; // what the selected head is compared with
  other: string; // the other text or model
  otherLayer: number; // 0: as selected
  otherHead: number; // -1: as selected
  comparing: Kind; // the map that is compared
  compare: string; // the map of the field in the section of other maps; empty: none
  open: string; // the sections that are unfolded, by name
  find: string;
  theme: "auto" | "light" | "dark";
}

/** Changes part of the view; a function gets the view before, because keys may be pressed faster than the page renders. */
export type Change = (change: Partial<View> | ((before: View) => Partial<View>)) => void;

export const FIRST: View = {
  layer: 1, head: 0, query: null, from: 0, words: false, special: true, sink: true, shade: "raw", gamma: 0.5, scale: "separate",
  color: "category", map: "readable", sort: "weight", side: "row", pattern: "", category: "", against: "head", other: "", otherLayer: 0,
  otherHead: -1, comparing: "raw", compare: "", open: "", find: "", theme: "auto",
};

const ALWAYS = ["layer", "head", "query"]; // what a page opens with depends on the text

const CHOICES: Partial<Record<keyof View, readonly string[]>> = {
  scale: ["shared", "separate"],
  shade: SHADES,
  color: COLORINGS,
  map: MAP_CHOICES,
  side: ["row", "column"],
  against: AGAINST,
  comparing: ["raw", ...MAP_CHOICES],
  theme: ["auto", "light", "dark"],
};
const WORDS = ["find", "pattern", "category", "other", "compare", "sort", "open"];

/** The unfolded sections, after one of them is opened or closed. */
export function withSection(open: string, name: string, opened: boolean): string {
  return [...open.split(" ").filter((other) => other && other !== name), ...(opened ? [name] : [])].join(" ");
}

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
    else if (WORDS.includes(name)) view[name] = value;
    else if (name === "query" && value === "null") view[name] = null;
    else if (value.trim() !== "" && Number.isFinite(Number(value))) view[name] = Number(value);
  }
  return view as unknown as View;
}
