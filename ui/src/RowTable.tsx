// The weights of one row in numbers: the keys that matter most in any of the maps.

import { useEffect, useState } from "preact/hooks";
import type { Kind } from "./maps";
import type { Pointer } from "./pointer";
import { type Scene, topColumns } from "./scene";
import { number } from "./shown";

const SHOWN = 10;

export function RowTable({ scene, locked, pointer }: { scene: Scene; locked: number | null; pointer: Pointer }) {
  const [hovered, setHovered] = useState<number | null>(null);
  useEffect(() => pointer.follow((place) => setHovered(place?.row ?? null)), [pointer]);
  const row = locked ?? hovered;
  if (row === null || row >= scene.rows.length)
    return <p class="note">Point at a row of a map, or at a token, to see what it attends to; click to hold it.</p>;
  const group = scene.rows[row];
  const hidden = scene.hidden?.(row);
  return (
    <>
      <table class="row-table">
        <caption>
          <b><bdi>{group.label}</bdi></b> at {group.members[0]} attends to {locked === null ? "(click to hold)" : "(held; Esc lets go)"}
        </caption>
        <thead>
          <tr><th scope="col">token</th><th scope="col">at</th>{scene.kinds.map((kind) => <th scope="col" class={`series ${kind}`}>{kind}</th>)}</tr>
        </thead>
        <tbody>
          {topColumns(scene, row, SHOWN).map((column) => (
            <tr>
              <th scope="row"><bdi>{scene.columns[column].label}</bdi></th>
              <td>{scene.columns[column].members[0]}</td>
              {scene.kinds.map((kind) => <Cell kind={kind} value={scene.value(kind, row, column)} limit={scene.limits[kind]} gamma={scene.gamma} />)}
            </tr>
          ))}
          {hidden && (
            <tr class="rest">
              <th scope="row">special tokens, hidden</th><td />
              {scene.kinds.map((kind) => <Cell kind={kind} value={hidden[kind]!} limit={scene.limits[kind]} gamma={scene.gamma} />)}
            </tr>
          )}
        </tbody>
      </table>
    </>
  );
}

function Cell({ kind, value, limit, gamma }: { kind: Kind; value: number; limit: number; gamma: number }) {
  const share = Math.min(Math.abs(value) / limit, 1) ** gamma;
  return (
    <td class="number">
      <span class={`meter ${kind} ${value < 0 ? "negative" : ""}`} style={{ width: `${(share * 100).toFixed(1)}%` }} aria-hidden="true" />
      <span>{number(value)}</span>
    </td>
  );
}
