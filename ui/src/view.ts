// What is being looked at: all of it is in the address, so that a link restores the exact view.

import type { Kind } from "./maps";
import type { Coloring } from "./summary";

export interface View {
  layer: number; // 0: all layers averaged
  head: number; // -1: all heads averaged
  query: number | null; // the locked row, by the position of a token
  from: number; // the first row in view, of texts whose rows are not all in view
  words: boolean;
  special: boolean;
  gamma: number;
  scale: "shared" | "each";
  color: Coloring;
  map: "all" | Kind;
  find: string;
  theme: "auto" | "light" | "dark";
}

/** Changes some of it, to what is given or to what is made of the view before: keys may come faster than pictures. */
export type Change = (change: Partial<View> | ((before: View) => Partial<View>)) => void;

export const FIRST: View = {
  layer: 1, head: 0, query: null, from: 0, words: false, special: true, gamma: 0.5, scale: "shared", color: "null_mass", map: "all", find: "",
  theme: "auto",
};

const CHOICES: Partial<Record<keyof View, readonly string[]>> = {
  scale: ["shared", "each"],
  color: ["null_mass", "correlation", "nullity", "certified"],
  map: ["all", "raw", "effective", "null"],
  theme: ["auto", "light", "dark"],
};

/** Where the rows in view must begin for a row to be among them; as before, if that will do. */
export function windowFor(position: number, from: number, window: number, count: number): number {
  if (position >= from && position < from + window) return from;
  return Math.max(0, Math.min(position - Math.floor(window / 2), count - window));
}

export function writeHash(view: View, more: Record<string, string> = {}): string {
  const entries = Object.entries(view).filter(([name, value]) => name === "layer" || name === "head" || value !== FIRST[name as keyof View]);
  return "#" + new URLSearchParams([...entries.map(([name, value]) => [name, String(value)]), ...Object.entries(more)]).toString();
}

/** What an address asks for; whatever does not fit is left as it was. */
export function readHash(hash: string, before: View): View {
  const given = new URLSearchParams(hash.replace(/^#/, ""));
  const view: Record<string, unknown> = { ...before };
  for (const [name, value] of given) {
    if (!(name in FIRST)) continue;
    const usual = FIRST[name as keyof View];
    const choices = CHOICES[name as keyof View];
    if (choices) {
      if (choices.includes(value)) view[name] = value;
    } else if (typeof usual === "boolean") view[name] = value === "true";
    else if (name === "find") view[name] = value;
    else if (value.trim() !== "" && Number.isFinite(Number(value))) view[name] = Number(value);
  }
  return view as unknown as View;
}
