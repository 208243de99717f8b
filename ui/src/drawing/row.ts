// Everything that is known of the keys of one row: the numbers behind the text and the table.

import type { Certificate } from "../data/summary";
import type { Group } from "./grouping";
import { rowOf, type Scene } from "./scene";

export interface KeyFacts {
  column: number;
  key: Group;
  weight: number;
  low: number | null; // certified bounds; null: not computed
  high: number | null;
  contribution: number | null;
  own: number | null; // the self-contribution of the key's vector
  readable: number | null; // at most this, if there are no bounds
  alternative: number | null; // the weight in another row with the same output
}

export type Column = "position" | "weight" | "low" | "contribution" | "own" | "readable";

/** own: by key; certificate and alternative: of this very row. */
export function rowFacts(scene: Scene, row: number, own: (number | null)[] | null, certificate: Certificate | null, alternative: (number | null)[] | null): KeyFacts[] {
  const weights = rowOf(scene, scene.maps.raw ? "raw" : "effective", row);
  const contributions = scene.maps.contribution && rowOf(scene, "contribution", row);
  const readable = scene.maps.readable && rowOf(scene, "readable", row);
  return scene.columns.map((key, column) => {
    const sum = (values: (number | null)[] | null | undefined) => {
      if (!values) return null;
      const of = key.members.map((member) => values[member]);
      return of.some((value) => value === null || value === undefined) ? null : of.reduce<number>((total, value) => total + value!, 0);
    };
    const weight = sum(certificate?.raw) ?? weights[column];
    const contribution = sum(certificate?.contribution) ?? contributions?.[column] ?? null;
    const kept = scene.certified?.[row * scene.columns.length + column] ?? NaN;
    const low = sum(certificate?.low) ?? (Number.isNaN(kept) ? null : kept);
    const share = own && mean(key.members.map((member) => own[member] ?? null));
    const certified = certificate && low !== null && contribution !== null && weight > 0 ? Math.min(low, (low / weight) * Math.max(contribution, 0)) : null;
    return {
      column, key, weight, low, high: sum(certificate?.high), contribution, own: share, alternative: sum(alternative),
      readable: certified !== null ? certified * (share ?? 1) : (readable?.[column] ?? null),
    };
  });
}

function mean(values: (number | null)[]): number | null {
  return values.includes(null) ? null : values.reduce<number>((total, value) => total + value!, 0) / values.length;
}

export function sortFacts(facts: KeyFacts[], by: string): KeyFacts[] {
  if (by === "position") return [...facts].sort((a, b) => a.column - b.column);
  const column = (["weight", "low", "contribution", "own", "readable"].includes(by) ? by : "weight") as Exclude<Column, "position">;
  return [...facts].sort((a, b) => (b[column] ?? -Infinity) - (a[column] ?? -Infinity) || b.weight - a.weight);
}
