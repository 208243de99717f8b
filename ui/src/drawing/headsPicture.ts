// Layers × heads as a picture to save, with its color scale.

import type { PerHead } from "../data/summary";
import { css, step } from "./colors";
import { make, svgSheet } from "./pictures";

const [CELL, LEFT, TOP, FOOT] = [22, 56, 62, 58];
const LEGEND = 180;

interface Heads {
  title: string;
  name: string; // of the number that the colors show
  layers: number[];
  heads: number;
  numbers: PerHead;
  limit: number; // the end of the scale
  colors: Uint32Array;
  dark: boolean;
}

export function headsPicture({ title, name, layers, heads, numbers, limit, colors, dark }: Heads): string {
  const bottom = TOP + layers.length * CELL;
  const width = LEFT + Math.max(heads * CELL, LEGEND, 7 * title.length) + 20;
  const { root, write, done } = svgSheet(width, bottom + FOOT, dark);
  const edge = dark ? "#3a424c" : "#c8cdd3";
  write(title, LEFT, 18, { "font-size": 14, "font-weight": "bold" });
  write("head", LEFT, 38);
  for (let head = 0; head < heads; head++) write(String(head), LEFT + (head + 0.5) * CELL, TOP - 6, { "text-anchor": "middle", "font-size": 10 });
  layers.forEach((layer, index) => {
    write(index === 0 ? `layer ${layer}` : String(layer), LEFT - 6, TOP + (index + 0.5) * CELL + 4, { "text-anchor": "end", "font-size": 10 });
    numbers[index].forEach((value, head) =>
      root.append(make("rect", {
        x: LEFT + head * CELL, y: TOP + index * CELL, width: CELL, height: CELL, stroke: edge,
        fill: value === null ? "none" : css(colors, step(value, limit, 1)),
      })),
    );
  });
  for (let x = 0; x < LEGEND; x++)
    root.append(make("rect", { x: LEFT + x, y: bottom + 14, width: 1.5, height: 10, fill: css(colors, 256 + Math.round((256 * x) / (LEGEND - 1))) }));
  write("0", LEFT, bottom + 40);
  write(String(limit), LEFT + LEGEND, bottom + 40, { "text-anchor": "end" });
  write(name, LEFT + LEGEND / 2, bottom + 40, { "text-anchor": "middle" });
  return done();
}
