// Tables that a spreadsheet opens: token text is data there too, and never a formula.

const FORMULA = /^\s*[=+\-@＝＋－＠]|^[\t\r\n]/;
const NUMBER = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i;

/** A cell; text that a spreadsheet would run gets an apostrophe before it, which marks text there. */
function cell(value: string | number): string {
  if (typeof value === "number") return String(value);
  const text = FORMULA.test(value) && !NUMBER.test(value) ? `'${value}` : value;
  return `"${text.replaceAll('"', '""')}"`;
}

export function csv(header: string[], lines: Iterable<(string | number)[]>): string {
  return [header, ...lines].map((line, at) => (at ? line.map(cell) : line).join(",")).join("\n") + "\n";
}
