// What is exported of a view: its numbers, and the Python lines that reproduce it.

import type { Kind } from "../data/maps";
import type { Summary } from "../data/summary";
import { stringLiteral } from "./format";
import { headName, type Scene } from "./scene";
import type { Cell, Table } from "./tables";

export function fileName(summary: Summary, scene: Scene): string {
  const head = headName(scene.view).replace(/[^a-z0-9]+/g, "-");
  return `${summary.model.split("/").pop()!.replace(/[^\w.-]+/g, "-")}-${head}`;
}

/** One line per weight: of the selected row, or of all rows. */
export function weightTable(scene: Scene, selected: number | null): Table {
  const rows = selected === null ? [...scene.rows.keys()] : [selected];
  return {
    header: ["query", "query_token", "key", "key_token", ...scene.kinds],
    rows: rows.flatMap((row) =>
      scene.columns.map((key, column): Cell[] => [
        scene.rows[row].members[0], scene.rows[row].label, key.members[0], key.label,
        ...scene.kinds.map((kind) => Number(scene.value(kind, row, column).toPrecision(4))),
      ]),
    ),
  };
}

const EFFECTIVE: Kind[] = ["raw", "effective", "null"]; // what effective_attention returns

/** The Python lines that reproduce the view. */
export function asPython(summary: Summary, scene: Scene, selected: number | null): string {
  const { layer, head } = scene.view;
  const texts = summary.image ? "picture.pixels" : [summary.text ?? "…", summary.pair].filter((text) => text !== null).map((text) => stringLiteral(text!)).join(", ");
  const kind = summary.kind === "self" ? "" : `, kind=${stringLiteral(summary.kind)}`;
  const layers = layer === 0 ? "" : `, layers=[${layer}]`;
  const heads = head < 0 ? "" : `, heads=[${head}]`;
  const row = selected === null ? "" : `.sel(query=${scene.rows[selected].members[0]})`;
  return [
    "import identiformer as idf",
    `model = idf.load(${stringLiteral(summary.model)})`,
    ...(summary.image ? ['picture = idf.open_picture(model, "FILE")'] : []),
    `trace = model.trace(${texts})`,
    `maps = idf.effective_attention(trace${kind}${layers}${heads}).mean(["layer", "head"])${row}`,
    EFFECTIVE.filter((kind) => scene.maps[kind]).map((kind) => `maps.${kind}`).join(", "),
    ...(scene.maps.contribution ? [`idf.attention_reading(trace${kind}${layers}${heads}, certify=False).contribution.mean(["layer", "head"])${row}`] : []),
    ...(selected === null || head < 0 || layer === 0 ? [] : [`idf.ambiguity(trace, layer=${layer}, head=${head}, queries=${scene.rows[selected].members[0]}${kind})  # certified bounds`]),
  ].join("\n");
}
