// What a person takes away: pictures, numbers, and the Python that makes the same view.

import { paint } from "./colors";
import { csv } from "./csv";
import { netcdf } from "./netcdf";
import { TITLES } from "./MapCanvas";
import { make, sheet } from "./pictures";
import { placeName, rowOf, type Scene } from "./scene";
import { literal } from "./shown";
import type { Summary } from "./summary";

const SIDE = 420;
const LABELLED = 64; // more tokens than this cannot be read along a side

export function fileName(summary: Summary, scene: Scene, ending: string): string {
  const place = placeName(scene.view).replace(/[^a-z0-9]+/g, "-");
  return `${summary.model.split("/").pop()!.replace(/[^\w.-]+/g, "-")}-${place}.${ending}`;
}

/** The maps side by side, with the names of tokens where they can be read. */
export function asSvg(summary: Summary, scene: Scene): string {
  const labeled = scene.rows.length <= LABELLED && scene.columns.length <= LABELLED;
  const margin = labeled ? 90 : 10;
  const width = scene.kinds.length * (SIDE + 20) + margin;
  const height = SIDE + 70 + margin;
  const { root, write, done } = sheet(width, height, scene.ink === "#fff");
  write(`${summary.model}, ${placeName(scene.view)}`, margin, 18, { "font-size": 14, "font-weight": "bold" });
  scene.kinds.forEach((kind, at) => {
    const left = margin + at * (SIDE + 20);
    write(`${TITLES[kind][0]}: ${TITLES[kind][1]}, to ${scene.limits[kind].toPrecision(2)}`, left, 40);
    const picture = make("image", { x: left, y: 50, width: SIDE, height: SIDE, preserveAspectRatio: "none", style: "image-rendering: pixelated" });
    picture.setAttribute("href", pictureOf(scene, kind));
    root.append(picture);
    if (!labeled) return;
    scene.columns.forEach((column, place) => {
      const x = left + ((place + 0.5) / scene.columns.length) * SIDE + 3;
      write(column.label, x, 58 + SIDE, { "font-size": 8, transform: `rotate(90 ${x - 3} ${58 + SIDE})` });
    });
    if (at === 0)
      scene.rows.forEach((row, place) =>
        write(row.label, left - 4, 53 + ((place + 0.5) / scene.rows.length) * SIDE, { "font-size": 8, "text-anchor": "end" }),
      );
  });
  return done();
}

function pictureOf(scene: Scene, kind: Scene["kinds"][number]): string {
  const image = paint(scene.maps[kind]!, scene.rows.length, scene.columns.length, scene.limits[kind], scene.gamma, scene.colors, 1024);
  // Some viewers smooth pictures when they enlarge them, so small maps are enlarged here.
  const times = Math.max(1, Math.ceil(840 / Math.max(image.width, image.height)));
  const small = document.createElement("canvas");
  small.width = image.width;
  small.height = image.height;
  small.getContext("2d")!.putImageData(image, 0, 0);
  const canvas = document.createElement("canvas");
  canvas.width = image.width * times;
  canvas.height = image.height * times;
  const context = canvas.getContext("2d")!;
  context.imageSmoothingEnabled = false;
  context.drawImage(small, 0, 0, canvas.width, canvas.height);
  return canvas.toDataURL("image/png");
}

/** A line for each weight in view: of the held row, or of all rows. */
function* lines(scene: Scene, held: number | null) {
  const rows = held === null ? scene.rows.keys() : [held];
  for (const row of rows)
    for (const column of scene.columns.keys())
      yield {
        query: scene.rows[row].members[0], query_token: scene.rows[row].label,
        key: scene.columns[column].members[0], key_token: scene.columns[column].label,
        ...Object.fromEntries(scene.kinds.map((kind) => [kind, Number(scene.value(kind, row, column).toPrecision(4))])),
      };
}

export function asCsv(scene: Scene, held: number | null): string {
  const header = ["query", "query_token", "key", "key_token", ...scene.kinds];
  return csv(header, Array.from(lines(scene, held), (line) => Object.values(line)));
}

export function asJson(summary: Summary, scene: Scene, held: number | null): string {
  const { layer, head, words } = scene.view;
  const about = { model: summary.model, text: summary.text, pair: summary.pair, kind: summary.kind, layer, head, words };
  return JSON.stringify({ ...about, weights: [...lines(scene, held)] });
}

/** The maps over queries and keys, which xarray and others open. */
export function asNetcdf(summary: Summary, scene: Scene, held: number | null): Uint8Array {
  const rows = held === null ? scene.rows : [scene.rows[held]];
  const { layer, head, words } = scene.view;
  const { model, kind, text, pair } = summary;
  const maps = scene.kinds.map((kind) => [kind, { dimensions: ["query", "key"], values: held === null ? scene.maps[kind]! : rowOf(scene, kind, held) }]);
  return netcdf(
    { query: rows.length, key: scene.columns.length },
    {
      ...Object.fromEntries(maps),
      query: { dimensions: ["query"], values: Int32Array.from(rows, (group) => group.members[0]) },
      key: { dimensions: ["key"], values: Int32Array.from(scene.columns, (group) => group.members[0]) },
      query_token: { dimensions: ["query"], values: rows.map((group) => group.label) },
      key_token: { dimensions: ["key"], values: scene.columns.map((group) => group.label) },
    },
    { model, kind, text: text ?? "", pair: pair ?? "", layer, head, words: Number(words), error: scene.error },
  );
}

/** The lines that make the same view. */
export function asPython(summary: Summary, scene: Scene, held: number | null): string {
  const { layer, head } = scene.view;
  const texts = [summary.text ?? "…", summary.pair].filter((text) => text !== null).map((text) => literal(text!)).join(", ");
  const kind = summary.kind === "self" ? "" : `, kind=${literal(summary.kind)}`;
  const layers = layer === 0 ? "" : `, layers=[${layer}]`;
  const heads = head < 0 ? "" : `, heads=[${head}]`;
  const row = held === null ? "" : `.sel(query=${scene.rows[held].members[0]})`;
  return [
    "import identiformer as idf",
    `model = idf.load(${literal(summary.model)})`,
    `trace = model.trace(${texts})`,
    `maps = idf.effective_attention(trace${kind}${layers}${heads}).mean(["layer", "head"])${row}`,
    scene.kinds.map((kind) => `maps.${kind}`).join(", "),
    ...(held === null || head < 0 || layer === 0 ? [] : [`idf.ambiguity(trace, layer=${layer}, head=${head}, query=${scene.rows[held].members[0]}${kind})  # intervals`]),
  ].join("\n");
}
