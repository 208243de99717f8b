// Layers × heads as a picture to save: colored by a number or by category, or with a small map of each head.

import { CATEGORIES, type Category } from "../data/summary";
import { css, onCanvas } from "./colors";
import { make, svgSheet } from "./pictures";

const [LEFT, TOP, FOOT, FRAME] = [56, 62, 58, 4];
const LEGEND = 180;

interface Heads {
  title: string;
  name: string; // of what is shown
  layers: number[];
  heads: number;
  color: (index: number, head: number) => string | null;
  limit: number | null; // the end of the color scale; null: there is none
  categories: (Category | null)[][] | null;
  thumbnail: ((index: number, head: number) => ImageData | null) | null;
  colors: Uint32Array;
  dark: boolean;
}

export function headsPicture({ title, name, layers, heads, color, limit, categories, thumbnail, colors, dark }: Heads): string {
  const cell = thumbnail ? 56 : 22;
  const bottom = TOP + layers.length * cell;
  const width = LEFT + Math.max(heads * cell, 2 * LEGEND, 7 * title.length) + 20;
  const { root, write, done } = svgSheet(width, bottom + FOOT, dark);
  const edge = dark ? "#3a424c" : "#c8cdd3";
  const style = getComputedStyle(document.documentElement);
  const ofCategory = (category: Category | null) => (category ? style.getPropertyValue(`--${category}`).trim() : null);
  write(title, LEFT, 18, { "font-size": 14, "font-weight": "bold" });
  write("head", LEFT, 38);
  for (let head = 0; head < heads; head++) write(String(head), LEFT + (head + 0.5) * cell, TOP - 6, { "text-anchor": "middle", "font-size": 10 });
  layers.forEach((layer, index) => {
    write(index === 0 ? `layer ${layer}` : String(layer), LEFT - 6, TOP + (index + 0.5) * cell + 4, { "text-anchor": "end", "font-size": 10 });
    for (let head = 0; head < heads; head++) {
      const [x, y, fill] = [LEFT + head * cell, TOP + index * cell, categories ? ofCategory(categories[index][head]) : color(index, head)];
      root.append(make("rect", { x, y, width: cell, height: cell, stroke: edge, fill: fill ?? "none" }));
      const small = thumbnail?.(index, head);
      if (small) root.append(make("image", { x: x + FRAME, y: y + FRAME, width: cell - 2 * FRAME, height: cell - 2 * FRAME, href: onCanvas(small).toDataURL("image/png") }));
    }
  });
  if (categories) {
    const shown = CATEGORIES.filter((category) => categories.some((layer) => layer.includes(category)));
    shown.forEach((category, index) => {
      root.append(make("rect", { x: LEFT + index * 90, y: bottom + 14, width: 10, height: 10, stroke: edge, fill: ofCategory(category)! }));
      write(category, LEFT + index * 90 + 14, bottom + 23, { "font-size": 10 });
    });
    if (thumbnail) write(name, LEFT, bottom + 40, { "font-size": 10 });
    return done();
  }
  if (limit === null) return done();
  for (let x = 0; x < LEGEND; x++)
    root.append(make("rect", { x: LEFT + x, y: bottom + 14, width: 1.5, height: 10, fill: css(colors, 256 + Math.round((256 * x) / (LEGEND - 1))) }));
  write("0", LEFT, bottom + 40);
  write(String(limit), LEFT + LEGEND, bottom + 40, { "text-anchor": "end" });
  write(name, LEFT + LEGEND / 2, bottom + 40, { "text-anchor": "middle" });
  return done();
}
