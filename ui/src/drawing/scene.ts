// What is drawn: the maps of the selected head, grouped and scaled as the view says.

import type { Kind, Maps } from "../data/maps";
import type { Summary } from "../data/summary";
import type { View } from "../view";
import { DARK, LIGHT, largestMagnitude, table } from "./colors";
import { formatNumber } from "./format";
import { aggregate, type Group, groupTokens } from "./grouping";

const TITLES: Record<Kind, string> = {
  raw: "raw attention", contribution: "contribution", readable: "readable weight", effective: "effective attention A⊥", null: "null component A∥", other: "",
};
const DRAWN: Kind[] = ["raw", "contribution", "readable", "effective", "null", "other"];

export interface Scene {
  view: View;
  rows: Group[];
  columns: Group[];
  maps: Maps; // of (row, column)
  kinds: Kind[];
  titles: Record<Kind, string>;
  limits: Record<Kind, number>;
  error: number; // of any entry, relative to the largest of its head
  gamma: number;
  colors: Uint32Array;
  ink: string;
  certified: Float32Array | null; // the certified part of each weight, NaN where unknown
  peak: number | null; // the column that receives most weight
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

export function makeScene(summary: Summary, { rows, columns, hidden }: Sides, maps: Maps, error: number, view: View, dark: boolean, titled: Partial<Record<Kind, string>> = {}, certified: Float32Array | null = null): Scene {
  const keyTokens = summary.keys ?? summary.queries;
  const kinds = DRAWN.filter((kind) => maps[kind]);
  const titles = { ...TITLES, ...titled };
  const width = keyTokens.texts.length;
  const groupedMaps: Maps = {};
  for (const kind of kinds) groupedMaps[kind] = aggregate(maps[kind]!, view.from, width, rows, columns);
  const peak = groupedMaps.raw ? largestColumn(groupedMaps.raw, columns.length) : null;
  const without = view.sink ? null : peak;
  const largest = Object.fromEntries(kinds.map((kind) => [kind, largestOutside(groupedMaps[kind]!, columns.length, without) || 1])) as Record<Kind, number>;
  const most = Math.max(...kinds.map((kind) => largest[kind]));
  const limits = Object.fromEntries(kinds.map((kind) => [kind, view.scale === "shared" ? most : largest[kind]])) as Record<Kind, number>;
  const hiddenWeight = (row: number) =>
    Object.fromEntries(kinds.map((kind) => [kind, aggregate(maps[kind]!, view.from, width, [rows[row]], hidden).reduce((sum, value) => sum + value, 0)]));
  return {
    view, rows, columns, maps: groupedMaps, kinds, titles, limits, error, peak,
    certified: certified && aggregate(certified, view.from, width, rows, columns),
    gamma: view.gamma,
    colors: table(dark ? DARK : LIGHT),
    ink: dark ? "#fff" : "#000",
    hiddenWeight: hidden.length ? hiddenWeight : null,
    value: (kind, row, column) => groupedMaps[kind]![row * columns.length + column],
    describe: (kind) =>
      `${titles[kind]} of ${headName(view)}: ${rows.length} rows (queries) by ${columns.length} columns (keys), ` +
      `largest ${formatNumber(largest[kind])}. Select a token of the text to read its row.`,
  };
}

function largestColumn(map: Float32Array, columns: number): number {
  const received = new Float64Array(columns);
  for (let index = 0; index < map.length; index++) received[index % columns] += map[index];
  return received.indexOf(Math.max(...received));
}

function largestOutside(map: Float32Array, columns: number, without: number | null): number {
  if (without === null) return largestMagnitude(map);
  let largest = 0;
  for (let index = 0; index < map.length; index++) if (index % columns !== without) largest = Math.max(largest, Math.abs(map[index]));
  return largest;
}

export function headName(view: Pick<View, "layer" | "head">): string {
  const layer = view.layer === 0 ? "all layers" : `layer ${view.layer}`;
  return view.head < 0 ? `${layer}, mean over heads` : `${layer}, head ${view.head}`;
}

export function rowOf(scene: Scene, kind: Kind, row: number): Float32Array {
  return scene.maps[kind]!.subarray(row * scene.columns.length, (row + 1) * scene.columns.length);
}

