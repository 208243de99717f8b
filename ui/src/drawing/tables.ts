// Tables of numbers as files: CSV that no spreadsheet runs as a formula, and JSON.

import type { Certificate, Tokens } from "../data/summary";
import { printable } from "./format";
import { save } from "./pictures";

export type Cell = string | number | boolean | null;

export interface Table {
  header: string[];
  rows: Cell[][];
}

const FORMULA = /^\s*[=+\-@＝＋－＠]|^[\t\r\n]/;
const NUMBER = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i;

/** A cell of CSV; token text is data in a spreadsheet too, so an apostrophe marks as text what would be run as a formula. */
function csvCell(value: Cell): string {
  if (value === null) return "";
  if (typeof value !== "string") return String(value);
  const text = FORMULA.test(value) && !NUMBER.test(value) ? `'${value}` : value;
  return `"${text.replaceAll('"', '""')}"`;
}

export function asCsv({ header, rows }: Table): string {
  return [header, ...rows.map((row) => row.map(csvCell))].map((row) => row.join(",")).join("\n") + "\n";
}

export function asRecords({ header, rows }: Table): Record<string, Cell>[] {
  return rows.map((row) => Object.fromEntries(header.map((name, index) => [name, row[index]])));
}

/** Saves a table as CSV, or with what it is about as JSON. */
export function saveTable(name: string, format: "csv" | "json", table: Table, about: object): void {
  const content = format === "csv" ? asCsv(table) : JSON.stringify({ ...about, rows: asRecords(table) });
  save(`${name}.${format}`, new Blob([content], { type: format === "csv" ? "text/csv" : "application/json" }));
}

/** Certified bounds of rows, one line per key. */
export function certificateTable(certificates: Iterable<Certificate>, queries: Tokens, keys: Tokens): Table {
  const all = [...certificates];
  const alternatives = [...new Set(all.flatMap((certificate) => Object.keys(certificate.alternatives)))];
  const rows = all.flatMap((certificate) =>
    certificate.raw.map((raw, key): Cell[] => [
      certificate.layer, certificate.head, certificate.query, printable(queries.texts[certificate.query]), key, printable(keys.texts[key]),
      raw, certificate.low[key], certificate.high[key], certificate.contribution[key],
      ...alternatives.map((name) => certificate.alternatives[name]?.row[key] ?? null),
    ]),
  );
  return {
    header: ["layer", "head", "query", "query_token", "key", "key_token", "weight", "low", "high", "contribution", ...alternatives.map((name) => `alternative_${name}`)],
    rows,
  };
}

/** Numbers of one token by layer and position. */
export function layerTable(layers: number[], rows: Float32Array[], tokens: string[], measured: string): Table {
  return {
    header: ["layer", "position", "token", measured],
    rows: layers.flatMap((layer, index) => Array.from(rows[index], (value, position): Cell[] => [layer, position, printable(tokens[position]), Number(value.toPrecision(5))])),
  };
}
