// What is drawn: the maps of the selected head, grouped and scaled as the view says.

import { KINDS, type Kind, type Maps } from "../data/maps";
import type { Summary } from "../data/summary";
import type { View } from "../view";
import { DARK, LIGHT, largestMagnitude, table } from "./colors";
import { formatNumber } from "./format";
import { aggregate, type Group, groupTokens } from "./grouping";

export const TITLES: Record<Kind, string> = { raw: "raw attention A", effective: "effective attention A⊥", null: "null component A∥" };

export interface Scene {
  view: View;
  rows: Group[];
  columns: Group[];
  maps: Maps; // of (row, column)
  kinds: Kind[];
  limits: Record<Kind, number>;
  error: number; // of any entry, relative to the largest of its head
  gamma: number;
  colors: Uint32Array;
  ink: string;
  /** The total weight of special tokens in a row, if they are hidden. */
  hiddenWeight: ((row: number) => Partial<Record<Kind, number>>) | null;
  value: (kind: Kind, row: number, column: number) => number;
  describe: (kind: Kind) => string;
}

/** Rows and columns of the maps: the same for all heads, so that the tokens need not be drawn again. */
export interface Sides {
  rows: Group[];
  columns: Group[];
  hidden: Group[]; // columns that are not drawn
}

export function makeSides(summary: Summary, view: Pick<View, "words" | "special" | "from">): Sides {
  const keyTokens = summary.keys ?? summary.queries;
  const kept = (groups: Group[]) => {
    const visible = groups.filter((group) => view.special || !group.special);
    return visible.length ? visible : groups;
  };
  const until = view.from + (summary.window ?? summary.queries.texts.length);
  const inView = (group: Group) => group.members[0] >= view.from && group.members[group.members.length - 1] < until;
  const rows = kept(groupTokens(summary.queries, view.words)).filter(inView);
  const every = groupTokens(keyTokens, view.words);
  const columns = kept(every);
  const drawn = new Set(columns);
  return { rows, columns, hidden: every.filter((group) => !drawn.has(group)) };
}

export function makeScene(summary: Summary, { rows, columns, hidden }: Sides, maps: Maps, error: number, view: View, dark: boolean): Scene {
  const keyTokens = summary.keys ?? summary.queries;
  const kinds = KINDS.filter((kind) => maps[kind]);
  const width = keyTokens.texts.length;
  const groupedMaps: Maps = {};
  for (const kind of kinds) groupedMaps[kind] = aggregate(maps[kind]!, view.from, width, rows, columns);
  const largest = Object.fromEntries(kinds.map((kind) => [kind, largestMagnitude(groupedMaps[kind]) || 1])) as Record<Kind, number>;
  const most = Math.max(...kinds.map((kind) => largest[kind]));
  const limits = Object.fromEntries(kinds.map((kind) => [kind, view.scale === "shared" ? most : largest[kind]])) as Record<Kind, number>;
  const hiddenWeight = (row: number) =>
    Object.fromEntries(kinds.map((kind) => [kind, aggregate(maps[kind]!, view.from, width, [rows[row]], hidden).reduce((sum, value) => sum + value, 0)]));
  return {
    view, rows, columns, maps: groupedMaps, kinds, limits, error,
    gamma: view.gamma,
    colors: table(dark ? DARK : LIGHT),
    ink: dark ? "#fff" : "#000",
    hiddenWeight: hidden.length ? hiddenWeight : null,
    value: (kind, row, column) => groupedMaps[kind]![row * columns.length + column],
    describe: (kind) =>
      `${TITLES[kind]} of ${headName(view)}: ${rows.length} rows (queries) by ${columns.length} columns (keys), ` +
      `largest weight ${formatNumber(largest[kind])}. Select a token below to read the weights of its row.`,
  };
}

export function headName(view: View): string {
  const layer = view.layer === 0 ? "all layers" : `layer ${view.layer}`;
  return view.head < 0 ? `${layer}, mean over heads` : `${layer}, head ${view.head}`;
}

/** The columns of a row with the largest absolute weights in any map. */
export function topColumns(scene: Scene, row: number, most: number): number[] {
  const weight = (column: number) => Math.max(...scene.kinds.map((kind) => Math.abs(scene.value(kind, row, column))));
  const kept = scene.columns.map((_, column) => ({ column, weight: weight(column) }));
  return kept.sort((a, b) => b.weight - a.weight).slice(0, most).map(({ column }) => column);
}

export function rowOf(scene: Scene, kind: Kind, row: number): Float32Array {
  return scene.maps[kind]!.subarray(row * scene.columns.length, (row + 1) * scene.columns.length);
}
