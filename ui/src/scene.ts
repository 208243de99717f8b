// What is drawn: the maps of the chosen head as the view wants them, with the scale of their colors.

import { DARK, LIGHT, reach, table } from "./colors";
import { aggregate, type Group, groupTokens } from "./grouping";
import { KINDS, type Kind, type Maps } from "./maps";
import { number } from "./shown";
import type { Summary } from "./summary";
import type { View } from "./view";

export interface Scene {
  view: View;
  rows: Group[];
  columns: Group[];
  maps: Maps; // of (row, column)
  kinds: Kind[];
  limits: Record<Kind, number>;
  error: number; // of any entry, as a share of the largest of its head
  gamma: number;
  colors: Uint32Array;
  ink: string;
  /** What special tokens hold of a row, where they are left out. */
  hidden: ((row: number) => Partial<Record<Kind, number>>) | null;
  value: (kind: Kind, row: number, column: number) => number;
  describe: (kind: Kind) => string;
}

/** What stands along the sides of the maps: the same for all heads, so that what is drawn of it can stay. */
export interface Sides {
  rows: Group[];
  columns: Group[];
  left: Group[]; // columns that are left out
}

export function makeSides(summary: Summary, view: Pick<View, "words" | "special" | "from">): Sides {
  const keyTokens = summary.keys ?? summary.queries;
  const kept = (groups: Group[]) => {
    const rest = groups.filter((group) => view.special || !group.special);
    return rest.length ? rest : groups;
  };
  const until = view.from + (summary.window ?? summary.queries.texts.length);
  const inView = (group: Group) => group.members[0] >= view.from && group.members[group.members.length - 1] < until;
  const rows = kept(groupTokens(summary.queries, view.words)).filter(inView);
  const every = groupTokens(keyTokens, view.words);
  const columns = kept(every);
  const shown = new Set(columns);
  return { rows, columns, left: every.filter((group) => !shown.has(group)) };
}

export function makeScene(summary: Summary, { rows, columns, left }: Sides, maps: Maps, error: number, view: View, dark: boolean): Scene {
  const keyTokens = summary.keys ?? summary.queries;
  const kinds = KINDS.filter((kind) => maps[kind]);
  const width = keyTokens.texts.length;
  const shownMaps: Maps = {};
  for (const kind of kinds) shownMaps[kind] = aggregate(maps[kind]!, view.from, width, rows, columns);
  const reaches = Object.fromEntries(kinds.map((kind) => [kind, reach(shownMaps[kind]) || 1])) as Record<Kind, number>;
  const most = Math.max(...kinds.map((kind) => reaches[kind]));
  const limits = Object.fromEntries(kinds.map((kind) => [kind, view.scale === "shared" ? most : reaches[kind]])) as Record<Kind, number>;
  const hidden = (row: number) =>
    Object.fromEntries(kinds.map((kind) => [kind, aggregate(maps[kind]!, view.from, width, [rows[row]], left).reduce((sum, value) => sum + value, 0)]));
  return {
    view, rows, columns, maps: shownMaps, kinds, limits, error,
    gamma: view.gamma,
    colors: table(dark ? DARK : LIGHT),
    ink: dark ? "#fff" : "#000",
    hidden: left.length ? hidden : null,
    value: (kind, row, column) => shownMaps[kind]![row * columns.length + column],
    describe: (kind) =>
      `${kind} attention of ${placeName(view)}: ${rows.length} rows (queries) by ${columns.length} columns (keys), ` +
      `largest weight ${number(reaches[kind])}. Choose a row among the tokens below to read its weights.`,
  };
}

export function placeName(view: View): string {
  const layer = view.layer === 0 ? "all layers" : `layer ${view.layer}`;
  return view.head < 0 ? `${layer}, mean of heads` : `${layer}, head ${view.head}`;
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
