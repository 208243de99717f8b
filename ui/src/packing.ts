// Reads what page/packing.py writes: fixed point, one step a column, numbers packed without gaps.

export interface Packed {
  shape: [rows: number, columns: number];
  bits: number[]; // a group each
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
  let at = begin + 4 * columns;
  let held = 0; // how many bits of `word` are not yet read
  let word = 0;
  for (let place = 0, column = 0; place < numbers.length; place++) {
    while (held < bits) {
      word = (word << 8) | bytes[at++];
      held += 8;
    }
    held -= bits;
    numbers[place] = (((word >>> held) & mask) - middle) * steps[column];
    word &= (1 << held) - 1;
    if (++column === columns) column = 0;
  }
  return numbers;
}

export function fromBase64(text: string): Uint8Array {
  const characters = atob(text);
  const bytes = new Uint8Array(characters.length);
  for (let place = 0; place < bytes.length; place++) bytes[place] = characters.charCodeAt(place);
  return bytes;
}
