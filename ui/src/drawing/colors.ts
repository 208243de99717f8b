// One diverging scale for all maps, safe for color-blind readers: blue is positive, orange negative, the background zero.

type Color = [number, number, number];
export interface Scale {
  background: Color;
  positive: Color[];
  negative: Color[];
}

export const LIGHT: Scale = {
  background: [255, 255, 255],
  positive: [[158, 202, 225], [49, 130, 189], [8, 48, 107]],
  negative: [[253, 190, 133], [230, 120, 20], [127, 39, 4]],
};
export const DARK: Scale = {
  background: [17, 20, 24],
  positive: [[20, 70, 130], [66, 146, 210], [200, 230, 255]],
  negative: [[120, 55, 5], [230, 130, 40], [255, 225, 180]],
};

const STEPS = 256;

/** Colors of -1 … 1 in 2 · 256 + 1 steps, as pixels of an image. */
export function table(scale: Scale): Uint32Array {
  const bytes = new Uint8ClampedArray((2 * STEPS + 1) * 4);
  for (let step = -STEPS; step <= STEPS; step++) {
    const stops = [scale.background, ...(step < 0 ? scale.negative : scale.positive)];
    const position = (Math.abs(step) / STEPS) * (stops.length - 1);
    const before = Math.min(Math.floor(position), stops.length - 2);
    const share = position - before;
    for (let channel = 0; channel < 3; channel++)
      bytes[(step + STEPS) * 4 + channel] = stops[before][channel] * (1 - share) + stops[before + 1][channel] * share;
    bytes[(step + STEPS) * 4 + 3] = 255;
  }
  return new Uint32Array(bytes.buffer);
}

/** The step of a value: |value / limit|^gamma with its sign. Most weights are near zero, so gamma is below one. */
export function step(value: number, limit: number, gamma: number): number {
  const share = Math.min(Math.abs(value) / limit, 1) ** gamma;
  return Math.round((value < 0 ? -share : share) * STEPS) + STEPS;
}

/** The same for many values: powers are slow, so they are looked up in a table by the square root of |value / limit|. */
function stepper(limit: number, gamma: number): (value: number) => number {
  const FINE = 4096;
  const steps = Uint16Array.from({ length: FINE + 1 }, (_, at) => Math.round((at / FINE) ** (2 * gamma) * STEPS));
  return (value) => {
    const step = steps[Math.min(Math.sqrt(Math.abs(value) / limit), 1) * FINE | 0];
    return value < 0 ? STEPS - step : STEPS + step;
  };
}

export function css(colors: Uint32Array, at: number): string {
  const color = colors[at];
  return `rgb(${color & 255} ${(color >> 8) & 255} ${(color >> 16) & 255})`;
}

/** Black or white, whichever is easier to read on a color. */
export function inkOn(colors: Uint32Array, at: number): string {
  const channel = (shift: number) => {
    const share = ((colors[at] >> shift) & 255) / 255;
    return share <= 0.03928 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  };
  return 0.2126 * channel(0) + 0.7152 * channel(8) + 0.0722 * channel(16) > 0.179 ? "#000" : "#fff";
}

/** Part of a map, in cells; ends are exclusive and need not be whole. */
export interface Part {
  top: number;
  bottom: number;
  left: number;
  right: number;
}

const HATCH = 4; // px between the lines over negative cells, which show without colors too

/** The picture of part of a map; where several cells share a pixel, the one farthest from zero is drawn. */
export function paint(map: Float32Array, columns: number, part: Part, width: number, height: number, limit: number, gamma: number, colors: Uint32Array, hidden: number | null = null): ImageData {
  const image = new ImageData(width, height);
  const pixels = new Uint32Array(image.data.buffer);
  const stepOf = stepper(limit, gamma);
  const ends = (start: number, stop: number, count: number) =>
    Array.from({ length: count }, (_, at) => {
      const first = Math.floor(start + ((stop - start) * at) / count);
      return [first, Math.max(first + 1, Math.floor(start + ((stop - start) * (at + 1)) / count))];
    });
  const across = ends(part.left, part.right, width);
  ends(part.top, part.bottom, height).forEach(([firstRow, lastRow], y) => {
    for (let x = 0; x < width; x++) {
      const [firstColumn, lastColumn] = across[x];
      let value = 0;
      for (let row = firstRow; row < lastRow; row++)
        for (let column = firstColumn; column < lastColumn; column++) {
          if (column === hidden) continue;
          const entry = map[row * columns + column];
          if (Math.abs(entry) > Math.abs(value)) value = entry;
        }
      pixels[y * width + x] = value < 0 && (x + y) % HATCH === 0 ? colors[STEPS] : colors[stepOf(value)];
    }
  });
  return image;
}

/** A canvas with an image on it. */
export function onCanvas(image: ImageData): HTMLCanvasElement {
  const canvas = document.createElement("canvas");
  canvas.width = image.width;
  canvas.height = image.height;
  canvas.getContext("2d")!.putImageData(image, 0, 0);
  return canvas;
}

/** The largest absolute value. */
export function largestMagnitude(map: Float32Array | undefined): number {
  let largest = 0;
  if (map) for (let index = 0; index < map.length; index++) largest = Math.max(largest, Math.abs(map[index]));
  return largest;
}
