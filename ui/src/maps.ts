// Makes the maps of a head from what makes them: queries and keys, and the thin factors of effective attention.

import { type Packed, unpack } from "./packing";

export const KINDS = ["raw", "effective", "null"] as const;
export type Kind = (typeof KINDS)[number];

/** Maps of (query, key), row by row; long texts have the effective one only. */
export type Maps = Partial<Record<Kind, Float32Array>>;

type Visible = null | { start: number[]; stop: number[] } | { mask: string[] };

interface About {
  layer: number;
  heads: number;
  scaling: number;
  visible: Visible;
  error: Partial<Record<Kind, number>>;
  arrays: Partial<Record<"query" | "key" | "weights" | "basis" | "coordinates", Packed>>;
}

export class Layer {
  readonly about: About;
  private readonly base: number;
  private readonly visible: Uint8Array | null;

  constructor(private readonly bytes: Uint8Array, private readonly queries: number, private readonly keys: number) {
    const length = new DataView(bytes.buffer, bytes.byteOffset).getUint32(0, true);
    this.about = JSON.parse(new TextDecoder().decode(bytes.subarray(4, 4 + length)));
    this.base = 4 + length;
    this.visible = dense(this.about.visible, queries, keys);
  }

  /** How far any entry of a map may be off, as a share of the largest: that of null attention is raw less effective. */
  get error(): number {
    const { raw = 0, effective = 0 } = this.about.error;
    return raw + effective;
  }

  /** The maps of a head; of a long text in pieces, between which the page can do other things. */
  async head(head: number): Promise<Maps> {
    const { query, weights, basis, coordinates } = this.about.arrays;
    const raw = weights ? this.read(weights, head) : query && (await this.softmax(head));
    const columns = basis!.shape[1];
    const own = this.read(basis!, head);
    const factors = coordinates
      ? this.read(coordinates, head)
      : await outer(raw!, transpose(own, this.keys, columns), this.queries, columns, this.keys, null);
    const effective = await outer(factors, own, this.queries, this.keys, columns, this.visible);
    if (!raw) return { effective };
    const rest = new Float32Array(raw.length);
    for (let place = 0; place < rest.length; place++) rest[place] = raw[place] - effective[place];
    return { raw, effective, null: rest };
  }

  private read(packed: Packed, head: number): Float32Array {
    return unpack(this.bytes, this.base, packed, Math.floor((head * packed.bits.length) / this.about.heads));
  }

  private async softmax(head: number): Promise<Float32Array> {
    const { query, key } = this.about.arrays;
    const columns = query!.shape[1];
    const rows = await outer(this.read(query!, head), this.read(key!, head), this.queries, this.keys, columns, null);
    const { scaling } = this.about;
    for (let row = 0; row < this.queries; row++) {
      const begin = row * this.keys;
      const end = begin + this.keys;
      let largest = -Infinity;
      for (let place = begin; place < end; place++) {
        if (this.visible && !this.visible[place]) rows[place] = -Infinity;
        else rows[place] *= scaling;
        if (rows[place] > largest) largest = rows[place];
      }
      let sum = 0;
      for (let place = begin; place < end; place++) sum += rows[place] = Math.exp(rows[place] - largest);
      for (let place = begin; place < end; place++) rows[place] /= sum;
    }
    return rows;
  }
}

const MOST_AT_ONCE = 1 << 20; // entries of a map, which take less time than anybody notices

function transpose(matrix: Float32Array, rows: number, columns: number): Float32Array {
  const turned = new Float32Array(matrix.length);
  for (let row = 0; row < rows; row++) for (let column = 0; column < columns; column++) turned[column * rows + row] = matrix[row * columns + column];
  return turned;
}

/** left (queries × width) times the transpose of right (keys × width), zero where hidden; four keys at a time, which is quicker. */
async function outer(
  left: Float32Array, right: Float32Array, queries: number, keys: number, width: number, visible: Uint8Array | null,
): Promise<Float32Array> {
  const product = new Float32Array(queries * keys);
  const paused = keys * queries > MOST_AT_ONCE;
  for (let query = 0; query < queries; query++) {
    if (paused && query % 64 === 63) await new Promise((resume) => setTimeout(resume));
    const begin = query * width;
    let key = 0;
    for (; key + 3 < keys; key += 4) {
      let [first, second, third, fourth] = [0, 0, 0, 0];
      let at = key * width;
      for (let column = 0; column < width; column++, at++) {
        const own = left[begin + column];
        first += own * right[at];
        second += own * right[at + width];
        third += own * right[at + 2 * width];
        fourth += own * right[at + 3 * width];
      }
      const place = query * keys + key;
      product[place] = first;
      product[place + 1] = second;
      product[place + 2] = third;
      product[place + 3] = fourth;
    }
    for (; key < keys; key++) {
      let sum = 0;
      for (let column = 0; column < width; column++) sum += left[begin + column] * right[key * width + column];
      product[query * keys + key] = sum;
    }
  }
  if (visible) for (let place = 0; place < product.length; place++) if (!visible[place]) product[place] = 0;
  return product;
}

function dense(visible: Visible, queries: number, keys: number): Uint8Array | null {
  if (!visible) return null;
  const mask = new Uint8Array(queries * keys);
  for (let query = 0; query < queries; query++) {
    if ("mask" in visible) {
      const row = visible.mask[query];
      for (let key = 0; key < keys; key++) {
        const byte = parseInt(row.slice((key >> 3) * 2, (key >> 3) * 2 + 2), 16);
        mask[query * keys + key] = (byte >> (7 - (key & 7))) & 1;
      }
    } else mask.fill(1, query * keys + visible.start[query], query * keys + visible.stop[query]);
  }
  return mask;
}

/** Adds up maps, so that many heads can be averaged one after the other. */
export class Mean {
  private sum: Maps = {};
  private count = 0;

  add(maps: Maps): void {
    this.count++;
    for (const kind of KINDS) {
      const map = maps[kind];
      if (!map) continue;
      const sum = (this.sum[kind] ??= new Float32Array(map.length));
      for (let place = 0; place < map.length; place++) sum[place] += map[place];
    }
  }

  maps(): Maps {
    const mean: Maps = {};
    for (const kind of KINDS) if (this.sum[kind]) mean[kind] = this.sum[kind]!.map((value) => value / this.count);
    return mean;
  }
}
