// Computes the maps of a head from queries and keys, and from the thin factors of effective attention.

import { type Packed, unpack } from "./packing";

export const KINDS = ["raw", "contribution", "effective", "null"] as const;
/** What a canvas can show; readable: the weight that passes all tests; other: a map of the layer that the user chose. */
export type Kind = (typeof KINDS)[number] | "readable" | "other";

/** Maps of (query, key), row by row; of long texts, only effective attention. */
export type Maps = Partial<Record<Kind, Float32Array>>;

type Visible = null | { start: number[]; stop: number[] } | { mask: string[] };

interface Header {
  layer: number;
  heads: number;
  scaling: number;
  visible: Visible;
  error: Partial<Record<Kind, number>>;
  arrays: Partial<Record<"query" | "key" | "weights" | "basis" | "coordinates" | "gram", Packed>>;
}

export class Layer {
  readonly header: Header;
  private readonly base: number;
  private readonly visible: Uint8Array | null;

  constructor(private readonly bytes: Uint8Array, private readonly queries: number, private readonly keys: number) {
    const length = new DataView(bytes.buffer, bytes.byteOffset).getUint32(0, true);
    this.header = JSON.parse(new TextDecoder().decode(bytes.subarray(4, 4 + length)));
    this.base = 4 + length;
    this.visible = dense(this.header.visible, queries, keys);
  }

  /** Largest error of any entry, relative to the largest entry: that of the null component, which is raw minus effective. */
  get error(): number {
    const { raw = 0, effective = 0 } = this.header.error;
    return raw + effective;
  }

  /** The maps of a head; of a long text in pieces, between which the page can respond. */
  async head(head: number): Promise<Maps> {
    const { basis, coordinates, gram } = this.header.arrays;
    const raw = await this.raw(head);
    const columns = basis!.shape[1];
    const headBasis = this.read(basis!, head);
    const outputs = raw && (await outer(raw, transpose(headBasis, this.keys, columns), this.queries, columns, this.keys, null));
    const factors = coordinates ? this.read(coordinates, head) : outputs!;
    const effective = await outer(factors, headBasis, this.queries, this.keys, columns, this.visible);
    if (!raw || !outputs) return { effective };
    const maps: Maps = { raw, effective, null: raw.map((weight, index) => weight - effective[index]) };
    if (gram) maps.contribution = await contributions(raw, outputs, headBasis, this.read(gram, head), columns);
    return maps;
  }

  /** The attention weights alone, which take a small part of the work; undefined of a long text. */
  async raw(head: number): Promise<Float32Array | undefined> {
    const { query, weights } = this.header.arrays;
    return weights ? this.read(weights, head) : query && this.softmax(head);
  }

  private read(packed: Packed, head: number): Float32Array {
    return unpack(this.bytes, this.base, packed, Math.floor((head * packed.bits.length) / this.header.heads));
  }

  private async softmax(head: number): Promise<Float32Array> {
    const { query, key } = this.header.arrays;
    const columns = query!.shape[1];
    const rows = await outer(this.read(query!, head), this.read(key!, head), this.queries, this.keys, columns, null);
    const { scaling } = this.header;
    for (let row = 0; row < this.queries; row++) {
      const begin = row * this.keys;
      const end = begin + this.keys;
      let largest = -Infinity;
      for (let index = begin; index < end; index++) {
        if (this.visible && !this.visible[index]) rows[index] = -Infinity;
        else rows[index] *= scaling;
        if (rows[index] > largest) largest = rows[index];
      }
      let sum = 0;
      for (let index = begin; index < end; index++) sum += rows[index] = Math.exp(rows[index] - largest);
      for (let index = begin; index < end; index++) rows[index] /= sum;
    }
    return rows;
  }
}

/**
 * The contribution of each key to the head's output: a_ij·⟨t_j, o_i⟩/‖o_i‖². In the basis, outputs are C = AB and what keys
 * write has the products BKBᵀ, so that ⟨t_j, o_i⟩ = (CKBᵀ)_ij and ‖o_i‖² = (CKCᵀ)_ii.
 */
async function contributions(raw: Float32Array, outputs: Float32Array, basis: Float32Array, gram: Float32Array, width: number): Promise<Float32Array> {
  const queries = outputs.length / width;
  const keys = basis.length / width;
  const directions = await outer(outputs, gram, queries, width, width, null); // K is symmetric
  const products = await outer(directions, basis, queries, keys, width, null);
  for (let query = 0; query < queries; query++) {
    let squared = 0;
    for (let column = 0; column < width; column++) squared += directions[query * width + column] * outputs[query * width + column];
    for (let key = 0, index = query * keys; key < keys; key++, index++) products[index] *= raw[index] / squared;
  }
  return products;
}

const MOST_AT_ONCE = 1 << 20; // entries of a map that are computed without a pause

function transpose(matrix: Float32Array, rows: number, columns: number): Float32Array {
  const transposed = new Float32Array(matrix.length);
  for (let row = 0; row < rows; row++) for (let column = 0; column < columns; column++) transposed[column * rows + row] = matrix[row * columns + column];
  return transposed;
}

/**
 * left (queries × width) times the transpose of right (keys × width), zero where hidden. Blocks of two queries and four keys
 * read each number less often; at an edge, a block takes the last query or key again.
 */
async function outer(
  left: Float32Array, right: Float32Array, queries: number, keys: number, width: number, visible: Uint8Array | null,
): Promise<Float32Array> {
  const product = new Float32Array(queries * keys);
  const paused = keys * queries > MOST_AT_ONCE;
  for (let query = 0; query < queries; query += 2) {
    if (paused && query % 64 === 62) await new Promise((resume) => setTimeout(resume));
    const next = Math.min(query + 1, queries - 1);
    for (let key = 0; key < keys; key += 4) {
      const [second, third, fourth] = [Math.min(key + 1, keys - 1), Math.min(key + 2, keys - 1), Math.min(key + 3, keys - 1)];
      let [a1, a2, a3, a4, b1, b2, b3, b4] = [0, 0, 0, 0, 0, 0, 0, 0];
      for (let column = 0; column < width; column++) {
        const a = left[query * width + column];
        const b = left[next * width + column];
        const c1 = right[key * width + column];
        const c2 = right[second * width + column];
        const c3 = right[third * width + column];
        const c4 = right[fourth * width + column];
        a1 += a * c1;
        a2 += a * c2;
        a3 += a * c3;
        a4 += a * c4;
        b1 += b * c1;
        b2 += b * c2;
        b3 += b * c3;
        b4 += b * c4;
      }
      const [row, below] = [query * keys, next * keys];
      product[row + key] = a1;
      product[row + second] = a2;
      product[row + third] = a3;
      product[row + fourth] = a4;
      product[below + key] = b1;
      product[below + second] = b2;
      product[below + third] = b3;
      product[below + fourth] = b4;
    }
  }
  if (visible) for (let index = 0; index < product.length; index++) if (!visible[index]) product[index] = 0;
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

/** Averages maps that are added one after the other. */
export class Mean {
  private sum: Maps = {};
  private count = 0;

  add(maps: Maps): void {
    this.count++;
    for (const kind of KINDS) {
      const map = maps[kind];
      if (!map) continue;
      const sum = (this.sum[kind] ??= new Float32Array(map.length));
      for (let index = 0; index < map.length; index++) sum[index] += map[index];
    }
  }

  maps(): Maps {
    const mean: Maps = {};
    for (const kind of KINDS) if (this.sum[kind]) mean[kind] = this.sum[kind]!.map((value) => value / this.count);
    return mean;
  }
}
