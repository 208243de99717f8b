// One scale for all maps, safe for the color-blind: blue adds, orange takes away, the ground is nothing.

type Color = [number, number, number];
export interface Scale {
  ground: Color;
  positive: Color[];
  negative: Color[];
}

export const LIGHT: Scale = {
  ground: [255, 255, 255],
  positive: [[158, 202, 225], [49, 130, 189], [8, 48, 107]],
  negative: [[253, 190, 133], [230, 120, 20], [127, 39, 4]],
};
export const DARK: Scale = {
  ground: [17, 20, 24],
  positive: [[20, 70, 130], [66, 146, 210], [200, 230, 255]],
  negative: [[120, 55, 5], [230, 130, 40], [255, 225, 180]],
};

const STEPS = 256;

/** Colors of -1 … 1 in 2 · 256 + 1 steps, as the bytes of an image. */
export function table(scale: Scale): Uint32Array {
  const bytes = new Uint8ClampedArray((2 * STEPS + 1) * 4);
  for (let step = -STEPS; step <= STEPS; step++) {
    const stops = [scale.ground, ...(step < 0 ? scale.negative : scale.positive)];
    const place = (Math.abs(step) / STEPS) * (stops.length - 1);
    const before = Math.min(Math.floor(place), stops.length - 2);
    const share = place - before;
    for (let channel = 0; channel < 3; channel++)
      bytes[(step + STEPS) * 4 + channel] = stops[before][channel] * (1 - share) + stops[before + 1][channel] * share;
    bytes[(step + STEPS) * 4 + 3] = 255;
  }
  return new Uint32Array(bytes.buffer);
}

/** The step of a value: |value / limit|^gamma with its sign. Attention is mostly near zero, so gamma is below one. */
export function step(value: number, limit: number, gamma: number): number {
  const share = Math.min(Math.abs(value) / limit, 1) ** gamma;
  return Math.round((value < 0 ? -share : share) * STEPS) + STEPS;
}

/** The same for many values: powers are slow, so they are looked up by the square root of a share. */
function stepper(limit: number, gamma: number): (value: number) => number {
  const FINE = 4096;
  const steps = Uint16Array.from({ length: FINE + 1 }, (_, at) => Math.round((at / FINE) ** (2 * gamma) * STEPS));
  return (value) => {
    const own = steps[Math.min(Math.sqrt(Math.abs(value) / limit), 1) * FINE | 0];
    return value < 0 ? STEPS - own : STEPS + own;
  };
}

export function css(colors: Uint32Array, at: number): string {
  const color = colors[at];
  return `rgb(${color & 255} ${(color >> 8) & 255} ${(color >> 16) & 255})`;
}

/** The picture of a map, no larger than asked: where cells are smaller than dots, the largest of them is shown. */
export function paint(map: Float32Array, rows: number, columns: number, limit: number, gamma: number, colors: Uint32Array, most: number): ImageData {
  const height = Math.min(rows, most);
  const width = Math.min(columns, most);
  const image = new ImageData(width, height);
  const dots = new Uint32Array(image.data.buffer);
  const stepOf = stepper(limit, gamma);
  if (height === rows && width === columns) {
    for (let place = 0; place < map.length; place++) dots[place] = colors[stepOf(map[place])];
    return image;
  }
  // Of the cells that fall on a dot, the one farthest from zero.
  const dotOf = Uint32Array.from({ length: columns }, (_, column) => Math.floor((column * width) / columns));
  const line = new Float32Array(width);
  for (let y = 0, row = 0; y < height; y++) {
    line.fill(0);
    for (const bottom = Math.floor(((y + 1) * rows) / height); row < bottom; row++)
      for (let column = 0, place = row * columns; column < columns; column++, place++) {
        const x = dotOf[column];
        if (Math.abs(map[place]) > Math.abs(line[x])) line[x] = map[place];
      }
    for (let x = 0; x < width; x++) dots[y * width + x] = colors[stepOf(line[x])];
  }
  return image;
}

/** The largest absolute value. */
export function reach(map: Float32Array | undefined): number {
  let largest = 0;
  if (map) for (let place = 0; place < map.length; place++) largest = Math.max(largest, Math.abs(map[place]));
  return largest;
}
