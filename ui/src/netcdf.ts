// Arrays as a NetCDF file, in its classic form with 64-bit offsets: a header of big-endian numbers, then the arrays as they are.

export interface Variable {
  dimensions: string[];
  values: Float32Array | Int32Array | string[];
}

const [CHARACTER, WHOLE, REAL] = [2, 4, 5];
const [DIMENSIONS, VARIABLES, ATTRIBUTES] = [10, 11, 12];
const utf8 = new TextEncoder();

interface Entry {
  name: string;
  dimensions: number[];
  type: number;
  attributes: Record<string, string>;
  content: Uint8Array;
}

/** Variables over named dimensions, and what is told of them all. Strings are kept as characters, with a dimension more. */
export function netcdf(dimensions: Record<string, number>, variables: Record<string, Variable>, told: Record<string, string | number>): Uint8Array {
  const lengths = new Map(Object.entries(dimensions));
  const place = (name: string) => [...lengths.keys()].indexOf(name);
  const entries = Object.entries(variables).map(([name, { dimensions: own, values }]): Entry => {
    if (!Array.isArray(values)) {
      return { name, dimensions: own.map(place), type: values instanceof Int32Array ? WHOLE : REAL, attributes: {}, content: numbers(values) };
    }
    const texts = values.map((text) => utf8.encode(text));
    const longest = Math.max(1, ...texts.map((text) => text.length));
    const content = new Uint8Array(texts.length * longest);
    texts.forEach((text, at) => content.set(text, at * longest));
    lengths.set(`${name}_bytes`, longest);
    return { name, dimensions: [...own, `${name}_bytes`].map(place), type: CHARACTER, attributes: { _Encoding: "utf-8" }, content };
  });
  const header = (starts: number[]) =>
    new Writer()
      .bytes(Uint8Array.of(0x43, 0x44, 0x46, 2)) // "CDF", and that offsets have 64 bits
      .whole(0)
      .list(DIMENSIONS, [...lengths], (file, [name, length]) => file.text(name).whole(length))
      .attributes(told)
      .list(VARIABLES, entries, (file, entry, at) => {
        file.text(entry.name).whole(entry.dimensions.length);
        for (const dimension of entry.dimensions) file.whole(dimension);
        file.attributes(entry.attributes).whole(entry.type).whole(padded(entry.content.length)).whole(Math.floor(starts[at] / 2 ** 32)).whole(starts[at]);
      });
  // Where arrays start depends on the length of the header, which does not depend on where they start.
  let end = header(entries.map(() => 0)).length;
  const starts = entries.map((entry) => (end += padded(entry.content.length)) - padded(entry.content.length));
  const file = header(starts);
  for (const entry of entries) file.bytes(entry.content);
  return file.joined();
}

function padded(length: number): number {
  return Math.ceil(length / 4) * 4;
}

function numbers(values: Float32Array | Int32Array): Uint8Array {
  const view = new DataView(new ArrayBuffer(values.length * 4));
  values.forEach((value, at) => (values instanceof Int32Array ? view.setInt32(at * 4, value) : view.setFloat32(at * 4, value)));
  return new Uint8Array(view.buffer);
}

/** Pieces of a file, each filled up to a multiple of four bytes. */
class Writer {
  length = 0;
  private readonly pieces: Uint8Array[] = [];

  bytes(content: Uint8Array): this {
    const piece = new Uint8Array(padded(content.length));
    piece.set(content);
    this.pieces.push(piece);
    this.length += piece.length;
    return this;
  }

  whole(value: number): this {
    return this.bytes(numbers(Int32Array.of(value)));
  }

  text(text: string): this {
    const content = utf8.encode(text);
    return this.whole(content.length).bytes(content);
  }

  list<Each>(kind: number, entries: Each[], write: (file: this, entry: Each, at: number) => void): this {
    this.whole(entries.length ? kind : 0).whole(entries.length);
    entries.forEach((entry, at) => write(this, entry, at));
    return this;
  }

  attributes(told: Record<string, string | number>): this {
    return this.list(ATTRIBUTES, Object.entries(told), (file, [name, value]) => {
      const whole = Number.isInteger(value);
      file.text(name).whole(typeof value === "string" ? CHARACTER : whole ? WHOLE : REAL);
      if (typeof value === "string") file.text(value);
      else file.whole(1).bytes(numbers(whole ? Int32Array.of(value) : Float32Array.of(value)));
    });
  }

  joined(): Uint8Array {
    const file = new Uint8Array(this.length);
    let at = 0;
    for (const piece of this.pieces) {
      file.set(piece, at);
      at += piece.length;
    }
    return file;
  }
}
