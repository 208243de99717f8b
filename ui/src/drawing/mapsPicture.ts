// The maps of a head side by side as a picture for a paper: titles, names of axes and tokens, and a color bar for each.

import type { Kind } from "../data/maps";
import type { Summary } from "../data/summary";
import { css, onCanvas, paint } from "./colors";
import { make, svgSheet } from "./pictures";
import { headName, type Scene } from "./scene";

const [SIDE, GAP, LEFT, TOP, NAMES, BAR] = [420, 92, 100, 62, 84, 58]; // px: of a map, between maps, around them, below for tokens and color bar
const SPACE = 9; // between two names, so that they can be read
const LONGEST = 14;

export function mapsPicture(summary: Summary, scene: Scene, kinds: Kind[] = scene.kinds): string {
  const width = LEFT + kinds.length * SIDE + (kinds.length - 1) * GAP + 30;
  const { root, write, done } = svgSheet(width, TOP + SIDE + NAMES + BAR, scene.ink === "#fff");
  write(`${summary.model}, ${headName(scene.view)}`, LEFT, 20, { "font-size": 14, "font-weight": "bold" });
  kinds.forEach((kind, index) => {
    const left = LEFT + index * (SIDE + GAP);
    write(scene.titles[kind], left, TOP - 12, { "font-size": 13 });
    const picture = make("image", { x: left, y: TOP, width: SIDE, height: SIDE, preserveAspectRatio: "none", style: "image-rendering: pixelated" });
    picture.setAttribute("href", pictureOf(scene, kind));
    root.append(picture, make("rect", { x: left, y: TOP, width: SIDE, height: SIDE, fill: "none", stroke: "#888", "stroke-width": 0.5 }));
    const short = (label: string) => (label.length > LONGEST ? `${label.slice(0, LONGEST - 1)}…` : label);
    named(scene.columns.length).forEach((at) => {
      const x = left + ((at + 0.5) / scene.columns.length) * SIDE;
      write(short(scene.columns[at].label), x, TOP + SIDE + 6, { "font-size": 8, "text-anchor": "end", transform: `rotate(-90 ${x} ${TOP + SIDE + 6})`, dy: 3 });
    });
    named(scene.rows.length).forEach((at) => write(short(scene.rows[at].label), left - 4, TOP + ((at + 0.5) / scene.rows.length) * SIDE + 3, { "font-size": 8, "text-anchor": "end" }));
    write("key", left + SIDE / 2, TOP + SIDE + NAMES - 4, { "text-anchor": "middle" });
    write("query", left - 80, TOP + SIDE / 2, { "text-anchor": "middle", transform: `rotate(-90 ${left - 80} ${TOP + SIDE / 2})` });
    colorBar(root, write, scene, kind, left, TOP + SIDE + NAMES + 6);
  });
  return done();
}

/** As many positions as have room for a name. */
function named(count: number): number[] {
  const every = Math.max(1, Math.ceil((SPACE * count) / SIDE));
  return Array.from({ length: Math.ceil(count / every) }, (_, index) => index * every);
}

function colorBar(root: SVGElement, write: ReturnType<typeof svgSheet>["write"], scene: Scene, kind: Kind, left: number, top: number): void {
  const limit = scene.limits[kind];
  const lowest = scene.maps[kind]!.some((value) => value < 0) ? -1 : 0;
  for (let x = 0; x < SIDE; x += 2) {
    const value = lowest + ((1 - lowest) * x) / SIDE;
    root.append(make("rect", { x: left + x, y: top, width: 2.5, height: 9, fill: css(scene.colors, 256 + Math.round(256 * Math.sign(value) * Math.abs(value) ** scene.gamma)) }));
  }
  for (const mark of roundMarks(lowest * limit, limit)) {
    const x = left + ((mark / limit - lowest) / (1 - lowest)) * SIDE;
    write(String(mark).replace("-", "−"), x, top + 22, { "text-anchor": "middle", "font-size": 9 });
  }
  write(scene.titles[kind], left + SIDE / 2, top + 36, { "text-anchor": "middle", "font-size": 10 });
}

/** Three to eight multiples of 1, 2 or 5 times a power of ten, zero among them. */
function roundMarks(least: number, most: number): number[] {
  const rough = (most - least) / 5;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find((factor) => factor * power >= 0.8 * rough)!;
  const [first, last] = [Math.ceil(least / step - 1e-9), Math.floor(most / step + 1e-9)];
  return Array.from({ length: last - first + 1 }, (_, index) => Number(((first + index) * step).toPrecision(6)));
}

function pictureOf(scene: Scene, kind: Kind): string {
  const [rows, columns] = [scene.rows.length, scene.columns.length];
  // Some viewers smooth a picture when they enlarge it, so it is painted large.
  return onCanvas(paint(scene.maps[kind]!, columns, { top: 0, bottom: rows, left: 0, right: columns }, 2 * SIDE, 2 * SIDE, scene.limits[kind], scene.gamma, scene.colors)).toDataURL("image/png");
}
