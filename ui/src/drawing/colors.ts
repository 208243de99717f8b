// One diverging scale for all maps, safe for color-blind readers: blue is positive, orange negative, the backbackground zero.

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

/** The picture of a map with at most `most` pixels per side; where several cells share a pixel, the one farthest from zero is drawn. */
export function paint(map: Float32Array, rows: number, columns: number, limit: number, gamma: number, colors: Uint32Array, most: number): ImageData {
  const height = Math.min(rows, most);
  const width = Math.min(columns, most);
  const image = new ImageData(width, height);
  const pixels = new Uint32Array(image.data.buffer);
  const stepOf = stepper(limit, gamma);
  if (height === rows && width === columns) {
    for (let index = 0; index < map.length; index++) pixels[index] = colors[stepOf(map[index])];
    return image;
  }
  const pixelOf = Uint32Array.from({ length: columns }, (_, column) => Math.floor((column * width) / columns));
  const line = new Float32Array(width);
  for (let y = 0, row = 0; y < height; y++) {
    line.fill(0);
    for (const bottom = Math.floor(((y + 1) * rows) / height); row < bottom; row++)
      for (let column = 0, index = row * columns; column < columns; column++, index++) {
        const x = pixelOf[column];
        if (Math.abs(map[index]) > Math.abs(line[x])) line[x] = map[index];
      }
    for (let x = 0; x < width; x++) pixels[y * width + x] = colors[stepOf(line[x])];
  }
  return image;
}

/** The largest absolute value. */
export function largestMagnitude(map: Float32Array | undefined): number {
  let largest = 0;
  if (map) for (let index = 0; index < map.length; index++) largest = Math.max(largest, Math.abs(map[index]));
  return largest;
}
