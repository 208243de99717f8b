// The largest weights of one row, and the weights of the cell under the mouse, in numbers.

import { useEffect, useRef, useState } from "preact/hooks";
import type { Kind } from "../data/maps";
import { formatNumber } from "../drawing/format";
import type { Pointer } from "../drawing/pointer";
import { type Scene, topColumns } from "../drawing/scene";

const MOST_KEYS = 10;

export function RowTable({ scene, selected, pointer }: { scene: Scene; selected: number | null; pointer: Pointer }) {
  const [hovered, setHovered] = useState<number | null>(null);
  useEffect(() => pointer.follow((cell) => setHovered(cell?.row ?? null)), [pointer]);
  const row = selected ?? hovered;
  if (row === null || row >= scene.rows.length)
    return <p class="note">Point at a row of a map, or at a token, to see its largest weights; click to select the row.</p>;
  const group = scene.rows[row];
  const hidden = scene.hiddenWeight?.(row);
  return (
      <table class="row-table">
        <caption>
          Largest weights in the row of <b><bdi>{group.label}</bdi></b> at {group.members[0]} {selected === null ? "(click to select)" : "(selected; Esc clears)"}
        </caption>
        <thead>
          <tr><th scope="col">token</th><th scope="col">position</th>{scene.kinds.map((kind) => <th scope="col" class={`series ${kind}`}>{kind}</th>)}</tr>
        </thead>
        <tbody>
          {topColumns(scene, row, MOST_KEYS).map((column) => (
            <tr>
              <th scope="row"><bdi>{scene.columns[column].label}</bdi></th>
              <td>{scene.columns[column].members[0]}</td>
              {scene.kinds.map((kind) => <Cell kind={kind} value={scene.value(kind, row, column)} limit={scene.limits[kind]} gamma={scene.gamma} />)}
            </tr>
          ))}
          {hidden && (
            <tr class="rest">
              <th scope="row">hidden special tokens</th><td />
              {scene.kinds.map((kind) => <Cell kind={kind} value={hidden[kind]!} limit={scene.limits[kind]} gamma={scene.gamma} />)}
            </tr>
          )}
        </tbody>
      </table>
  );
}

function Cell({ kind, value, limit, gamma }: { kind: Kind; value: number; limit: number; gamma: number }) {
  const share = Math.min(Math.abs(value) / limit, 1) ** gamma;
  return (
    <td class="number">
      <span class={`meter ${kind} ${value < 0 ? "negative" : ""}`} style={{ width: `${(share * 100).toFixed(1)}%` }} aria-hidden="true" />
      <span>{formatNumber(value)}</span>
    </td>
  );
}

/** One line with the weights of the cell under the mouse; hidden from screen readers, which have the table. */
export function Readout({ scene, pointer }: { scene: Scene; pointer: Pointer }) {
  const line = useRef<HTMLParagraphElement>(null);
  useEffect(() => {
    const write = () => {
      const { row = -1, column = null } = pointer.cell ?? {};
      const [query, key] = [scene.rows[row], scene.columns[column ?? -1]];
      if (!query || !key) {
        line.current!.textContent = "Rows are queries, columns are keys.";
        return;
      }
      const weights = scene.kinds.map((kind) => `${kind} ${formatNumber(scene.value(kind, row, column!))}`).join(", ");
      line.current!.textContent = `${query.label} (${query.members[0]}) → ${key.label} (${key.members[0]}): ${weights}`;
    };
    write();
    return pointer.follow(write);
  }, [scene, pointer]);
  return <p class="readout" ref={line} aria-hidden="true" />;
}
