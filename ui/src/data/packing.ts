// Reads what page/packing.py writes: fixed point with one step per column, without gaps between numbers.

export interface Packed {
  shape: [rows: number, columns: number];
  bits: number[]; // per group
  starts: number[];
  start: number;
}

/** One group of an array, row by row. */
export function unpack(bytes: Uint8Array, base: number, packed: Packed, group: number): Float32Array {
  const [rows, columns] = packed.shape;
  const bits = packed.bits[group];
  const begin = base + packed.start + packed.starts[group];
  const steps = new Float32Array(bytes.slice(begin, begin + 4 * columns).buffer);
  const numbers = new Float32Array(rows * columns);
  const mask = 2 ** bits - 1;
  const middle = 2 ** (bits - 1);
  let offset = begin + 4 * columns;
  let unread = 0; // bits of `word`
  let word = 0;
  for (let index = 0, column = 0; index < numbers.length; index++) {
    while (unread < bits) {
      word = (word << 8) | bytes[offset++];
      unread += 8;
    }
    unread -= bits;
    numbers[index] = (((word >>> unread) & mask) - middle) * steps[column];
    word &= (1 << unread) - 1;
    if (++column === columns) column = 0;
  }
  return numbers;
}

/** Several arrays of one shape, with their bytes. */
export type Embedded = Packed & { content: string };

export function unpackAll(embedded: Embedded): Float32Array[] {
  const bytes = fromBase64(embedded.content);
  return embedded.bits.map((_, group) => unpack(bytes, 0, embedded, group));
}

export function fromBase64(text: string): Uint8Array {
  const characters = atob(text);
  const bytes = new Uint8Array(characters.length);
  for (let index = 0; index < bytes.length; index++) bytes[index] = characters.charCodeAt(index);
  return bytes;
}
