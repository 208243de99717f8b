// Layers × heads as a picture of its own, with the scale of its colors.

import { css, step } from "./colors";
import { make, sheet } from "./pictures";
import type { PerHead } from "./summary";

const [CELL, LEFT, TOP, FOOT] = [22, 56, 62, 58];
const LEGEND = 180;

interface Heads {
  title: string; // whose heads
  name: string; // what their colors tell
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
  const { root, write, done } = sheet(width, bottom + FOOT, dark);
  const edge = dark ? "#3a424c" : "#c8cdd3";
  write(title, LEFT, 18, { "font-size": 14, "font-weight": "bold" });
  write("head", LEFT, 38);
  for (let head = 0; head < heads; head++) write(String(head), LEFT + (head + 0.5) * CELL, TOP - 6, { "text-anchor": "middle", "font-size": 10 });
  layers.forEach((layer, at) => {
    write(at === 0 ? `layer ${layer}` : String(layer), LEFT - 6, TOP + (at + 0.5) * CELL + 4, { "text-anchor": "end", "font-size": 10 });
    numbers[at].forEach((value, head) =>
      root.append(make("rect", {
        x: LEFT + head * CELL, y: TOP + at * CELL, width: CELL, height: CELL, stroke: edge,
        fill: value === null ? "none" : css(colors, step(value, limit, 1)),
      })),
    );
  });
  for (let at = 0; at < LEGEND; at++)
    root.append(make("rect", { x: LEFT + at, y: bottom + 14, width: 1.5, height: 10, fill: css(colors, 256 + Math.round((256 * at) / (LEGEND - 1))) }));
  write("0", LEFT, bottom + 40);
  write(String(limit), LEFT + LEGEND, bottom + 40, { "text-anchor": "end" });
  write(name, LEFT + LEGEND / 2, bottom + 40, { "text-anchor": "middle" });
  return done();
}
