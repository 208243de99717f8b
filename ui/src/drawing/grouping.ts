// Rows and columns of the maps: tokens, or words made of several tokens.

import type { Tokens } from "../data/summary";
import { printable } from "./format";

export interface Group {
  label: string;
  members: number[]; // positions of tokens
  special: boolean;
}

export function groupTokens(tokens: Tokens, words: boolean): Group[] {
  const groups: Group[] = [];
  let last: number | null = null;
  tokens.texts.forEach((text, position) => {
    const word = words && tokens.words ? tokens.words[position] : null;
    if (word !== null && word === last) groups[groups.length - 1].members.push(position);
    else groups.push({ label: printable(word === null ? text : tokens.word_texts[word]), members: [position], special: tokens.special[position] });
    last = word;
  });
  return groups;
}

/** Attention between groups: summed over the keys of a group, averaged over its queries; `from` is the first row of the map. */
export function aggregate(map: Float32Array, from: number, keys: number, rows: Group[], columns: Group[]): Float32Array {
  if (rows.length * keys === map.length && columns.length === keys) return map;
  const result = new Float32Array(rows.length * columns.length);
  rows.forEach((row, rowIndex) => {
    for (const query of row.members)
      columns.forEach((column, columnIndex) => {
        let sum = 0;
        for (const key of column.members) sum += map[(query - from) * keys + key];
        result[rowIndex * columns.length + columnIndex] += sum / row.members.length;
      });
  });
  return result;
}

/** The index of the group that a token belongs to. */
export function groupOf(groups: Group[], position: number | null): number | null {
  if (position === null) return null;
  const index = groups.findIndex((group) => group.members.includes(position));
  return index < 0 ? null : index;
}
