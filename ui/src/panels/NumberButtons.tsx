import { saveTable, type Table } from "../drawing/tables";

/** Buttons that save numbers; about: what they are of, for JSON. */
export function NumberButtons({ name, table, about }: { name: string; table: () => Table; about: object }) {
  return (
    <span class="picture-buttons">
      <button type="button" onClick={() => saveTable(name, "csv", table(), about)} aria-label={`${name} as CSV`}>CSV</button>{" "}
      <button type="button" onClick={() => saveTable(name, "json", table(), about)} aria-label={`${name} as JSON`}>JSON</button>
    </span>
  );
}
