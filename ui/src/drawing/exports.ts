// What can be exported: pictures, numbers, and the Python lines that reproduce the view.

import type { Summary } from "../data/summary";
import { paint } from "./colors";
import { stringLiteral } from "./format";
import { make, svgSheet } from "./pictures";
import { headName, type Scene, TITLES } from "./scene";

const SIDE = 420;
const MOST_LABELS = 64; // token names along a side that can still be read

export function fileName(summary: Summary, scene: Scene, ending: string): string {
  const head = headName(scene.view).replace(/[^a-z0-9]+/g, "-");
  return `${summary.model.split("/").pop()!.replace(/[^\w.-]+/g, "-")}-${head}.${ending}`;
}

/** The maps side by side, with the names of tokens if there is room. */
export function asSvg(summary: Summary, scene: Scene): string {
  const labeled = scene.rows.length <= MOST_LABELS && scene.columns.length <= MOST_LABELS;
  const margin = labeled ? 90 : 10;
  const width = scene.kinds.length * (SIDE + 20) + margin;
  const height = SIDE + 70 + margin;
  const { root, write, done } = svgSheet(width, height, scene.ink === "#fff");
  write(`${summary.model}, ${headName(scene.view)}`, margin, 18, { "font-size": 14, "font-weight": "bold" });
  scene.kinds.forEach((kind, index) => {
    const left = margin + index * (SIDE + 20);
    write(`${TITLES[kind]}, colors to ±${scene.limits[kind].toPrecision(2)}`, left, 40);
    const picture = make("image", { x: left, y: 50, width: SIDE, height: SIDE, preserveAspectRatio: "none", style: "image-rendering: pixelated" });
    picture.setAttribute("href", pictureOf(scene, kind));
    root.append(picture);
    if (!labeled) return;
    scene.columns.forEach((column, position) => {
      const x = left + ((position + 0.5) / scene.columns.length) * SIDE + 3;
      write(column.label, x, 58 + SIDE, { "font-size": 8, transform: `rotate(90 ${x - 3} ${58 + SIDE})` });
    });
    if (index === 0)
      scene.rows.forEach((row, position) =>
        write(row.label, left - 4, 53 + ((position + 0.5) / scene.rows.length) * SIDE, { "font-size": 8, "text-anchor": "end" }),
      );
  });
  return done();
}

function pictureOf(scene: Scene, kind: Scene["kinds"][number]): string {
  const image = paint(scene.maps[kind]!, scene.rows.length, scene.columns.length, scene.limits[kind], scene.gamma, scene.colors, 1024);
  // Some viewers smooth a picture when they enlarge it, so small maps are enlarged here.
  const times = Math.max(1, Math.ceil(840 / Math.max(image.width, image.height)));
  const small = document.createElement("canvas");
  small.width = image.width;
  small.height = image.height;
  small.getContext("2d")!.putImageData(image, 0, 0);
  const large = document.createElement("canvas");
  large.width = image.width * times;
  large.height = image.height * times;
  const context = large.getContext("2d")!;
  context.imageSmoothingEnabled = false;
  context.drawImage(small, 0, 0, large.width, large.height);
  return large.toDataURL("image/png");
}

/** One line per weight: of the selected row, or of all rows. */
function* lines(scene: Scene, selected: number | null) {
  const rows = selected === null ? scene.rows.keys() : [selected];
  for (const row of rows)
    for (const column of scene.columns.keys())
      yield {
        query: scene.rows[row].members[0], query_token: scene.rows[row].label,
        key: scene.columns[column].members[0], key_token: scene.columns[column].label,
        ...Object.fromEntries(scene.kinds.map((kind) => [kind, Number(scene.value(kind, row, column).toPrecision(4))])),
      };
}

const FORMULA = /^\s*[=+\-@＝＋－＠]|^[\t\r\n]/;
const NUMBER = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i;

/** A cell of CSV; token text is data in a spreadsheet too, so an apostrophe marks as text what would be run as a formula. */
function csvCell(value: string | number): string {
  if (typeof value === "number") return String(value);
  const text = FORMULA.test(value) && !NUMBER.test(value) ? `'${value}` : value;
  return `"${text.replaceAll('"', '""')}"`;
}

export function asCsv(scene: Scene, selected: number | null): string {
  const header = ["query", "query_token", "key", "key_token", ...scene.kinds];
  const rows = Array.from(lines(scene, selected), (line) => Object.values(line).map(csvCell));
  return [header, ...rows].map((row) => row.join(",")).join("\n") + "\n";
}

export function asJson(summary: Summary, scene: Scene, selected: number | null): string {
  const { layer, head, words } = scene.view;
  const { model, text, pair, kind } = summary;
  return JSON.stringify({ model, text, pair, kind, layer, head, words, weights: [...lines(scene, selected)] });
}

/** The Python lines that reproduce the view. */
export function asPython(summary: Summary, scene: Scene, selected: number | null): string {
  const { layer, head } = scene.view;
  const texts = [summary.text ?? "…", summary.pair].filter((text) => text !== null).map((text) => stringLiteral(text!)).join(", ");
  const kind = summary.kind === "self" ? "" : `, kind=${stringLiteral(summary.kind)}`;
  const layers = layer === 0 ? "" : `, layers=[${layer}]`;
  const heads = head < 0 ? "" : `, heads=[${head}]`;
  const row = selected === null ? "" : `.sel(query=${scene.rows[selected].members[0]})`;
  return [
    "import identiformer as idf",
    `model = idf.load(${stringLiteral(summary.model)})`,
    `trace = model.trace(${texts})`,
    `maps = idf.effective_attention(trace${kind}${layers}${heads}).mean(["layer", "head"])${row}`,
    scene.kinds.map((kind) => `maps.${kind}`).join(", "),
    ...(selected === null || head < 0 || layer === 0 ? [] : [`idf.ambiguity(trace, layer=${layer}, head=${head}, queries=${scene.rows[selected].members[0]}${kind})  # certified bounds`]),
  ].join("\n");
}
