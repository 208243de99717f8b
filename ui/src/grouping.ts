// Rows and columns as a person wants them: words for word pieces, special tokens left out.

import { shown } from "./shown";
import type { Tokens } from "./summary";

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
    else groups.push({ label: shown(word === null ? text : tokens.word_texts[word]), members: [position], special: tokens.special[position] });
    last = word;
  });
  return groups;
}

/** Attention between groups: summed over the keys of a group, averaged over its queries; the map begins with the row `from`. */
export function aggregate(map: Float32Array, from: number, keys: number, rows: Group[], columns: Group[]): Float32Array {
  if (rows.length * keys === map.length && columns.length === keys) return map;
  const result = new Float32Array(rows.length * columns.length);
  rows.forEach((row, at) => {
    for (const query of row.members)
      columns.forEach((column, place) => {
        let sum = 0;
        for (const key of column.members) sum += map[(query - from) * keys + key];
        result[at * columns.length + place] += sum / row.members.length;
      });
  });
  return result;
}

export function groupOf(groups: Group[], position: number | null): number | null {
  if (position === null) return null;
  const found = groups.findIndex((group) => group.members.includes(position));
  return found < 0 ? null : found;
}
