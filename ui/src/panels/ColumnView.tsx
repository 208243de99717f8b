// Who attends to the selected token: its column, over the text and in a table of queries. Each of its weights is part of another
// row, so its bounds are those of the whole head, which a server certifies in the background.

import { useEffect, useMemo, useRef } from "preact/hooks";
import { formatNumber, wholePercent } from "../drawing/format";
import { type Group, groupOf } from "../drawing/grouping";
import type { Scene } from "../drawing/scene";
import { shadeToken } from "../drawing/shading";
import type { Change, Shade, View } from "../view";
import { Marks } from "./Marks";

const MOST_QUERIES = 60;

/** The switch between where a token attends and what attends to it. */
export function SideSwitch({ view, onChange }: { view: View; onChange: Change }) {
  const sides: [View["side"], string][] = [["row", "where it attends"], ["column", "who attends to it"]];
  return (
    <span role="radiogroup" aria-label="what a selected token shows" class="choices">
      {sides.map(([side, name]) => <label><input type="radio" name="side" checked={view.side === side} onChange={() => onChange({ side })} /> {name}</label>)}
    </span>
  );
}

interface Properties {
  scene: Scene;
  view: View;
  onSelect: (group: Group) => void;
}

/** The column of the selected token, of the map that the text is shaded by. */
function columnOf(scene: Scene, view: View): { column: number; kind: Shade; values: number[] } | null {
  const column = groupOf(scene.columns, view.query);
  const kind: Shade = scene.maps[view.shade] ? view.shade : "raw";
  if (column === null || !scene.maps[kind]) return null;
  return { column, kind, values: scene.rows.map((_, row) => scene.value(kind, row, column)) };
}

/** The certified part of a weight; null: not computed. */
function certifiedAt(scene: Scene, row: number, column: number): number | null {
  const kept = scene.certified?.[row * scene.columns.length + column] ?? NaN;
  return Number.isNaN(kept) ? null : kept;
}

function certainty(scene: Scene, row: number, column: number): number | null {
  const [kept, weight] = [certifiedAt(scene, row, column), scene.value("raw", row, column)];
  return kept === null ? null : weight > 0 ? Math.min(kept / weight, 1) : 0;
}

/** What the selected token receives, in a sentence. */
export function columnSentence(scene: Scene, view: View): string {
  const column = groupOf(scene.columns, view.query);
  if (column === null || !scene.maps.raw) return "Select a token of the text to see who attends to it.";
  const weights = scene.rows.map((_, row) => scene.value("raw", row, column));
  const [token, most] = [scene.columns[column], weights.indexOf(Math.max(...weights))];
  const kept = certifiedAt(scene, most, column);
  const contribution = scene.maps.contribution ? scene.rows.reduce((sum, _, row) => sum + scene.value("contribution", row, column), 0) / weights.length : null;
  return [
    `‘${token.label}’ at ${token.members[0]} receives ${wholePercent(weights.reduce((sum, weight) => sum + weight, 0) / weights.length)} of a row's weight on average`,
    contribution === null || Number.isNaN(contribution) ? "." : ` and contributes ${wholePercent(contribution)} of what the head writes.`,
    ` Most comes from ‘${scene.rows[most].label}’ at ${scene.rows[most].members[0]} (${weights[most].toFixed(2)}`,
    kept === null ? "; not certified yet)." : kept < 0.005 ? ", none of it certified)." : `, at least ${kept.toFixed(2)} of it certified).`,
    " A column takes one weight from each row: select “where it attends” for the interval of a row.",
  ].join("");
}

export function ColumnView({ scene, view, onSelect }: Properties) {
  const box = useRef<HTMLDivElement>(null);
  const held = columnOf(scene, view);
  useEffect(() => {
    const limit = held ? scene.limits[held.kind] : 1; // that of the map, so that columns can be compared
    box.current!.querySelectorAll<HTMLElement>(".token").forEach((token, row) => {
      shadeToken(token, held?.values[row] ?? 0, limit, held && (held.kind === "readable" ? 1 : certainty(scene, row, held.column)), scene);
      const selected = held !== null && scene.rows[row].members[0] === scene.columns[held.column].members[0];
      token.classList.toggle("lit", selected);
      token.setAttribute("aria-pressed", String(selected));
    });
  });
  const onKey = (event: KeyboardEvent) => {
    const move = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity }[event.key];
    if (move === undefined) return;
    event.preventDefault();
    const buttons = [...box.current!.querySelectorAll<HTMLElement>("button")];
    const next = buttons[Math.max(0, Math.min(buttons.length - 1, buttons.indexOf(document.activeElement as HTMLElement) + move))];
    next?.focus();
  };
  return (
    <div>
    <div class="flow column" ref={box} role="group" aria-label="text: select a token to see who attends to it" onKeyDown={onKey}>
      {scene.rows.map((group, row) => (
        <button type="button" class={`token ${group.special ? "special" : ""}`} tabIndex={row === 0 ? 0 : -1} aria-label={`${group.label}, position ${group.members[0]}`} onClick={() => onSelect(group)}>
          <bdi>{group.label}</bdi>
        </button>
      ))}
    </div>
    <Marks certified={scene.certified !== null} negative={held?.kind === "contribution"} framed="the column" />
    </div>
  );
}

export function ColumnTable({ scene, view }: Omit<Properties, "onSelect">) {
  const held = columnOf(scene, view);
  const kinds = (["raw", "contribution", "readable"] as const).filter((kind) => scene.maps[kind]);
  const order = useMemo(() => (held ? [...held.values.keys()].sort((a, b) => held.values[b] - held.values[a]) : []), [scene, view.query, view.shade]);
  if (!held) return <section class="row-box" aria-label="queries of the column"><p class="note">Select a token of the text to see who attends to it.</p></section>;
  const { raw } = scene.maps;
  const mean = raw ? scene.rows.reduce((sum, _, row) => sum + scene.value("raw", row, held.column), 0) / scene.rows.length : null;
  const group = scene.columns[held.column];
  return (
    <section class="row-box" aria-label="queries of the column" tabIndex={0}>
      <table class="row-table">
        <caption>Who attends to <b><bdi>{group.label}</bdi></b> at {group.members[0]}{mean !== null && <>: {formatNumber(mean)} of a row's weight on average</>}</caption>
        <thead><tr><th scope="col">query</th>{kinds.map((kind) => <><th scope="col">{kind === "raw" ? "weight" : kind}</th>{kind === "raw" && scene.certified && <th scope="col">certified at least</th>}</>)}</tr></thead>
        <tbody>
          {order.slice(0, MOST_QUERIES).map((row) => (
            <tr>
              <th scope="row"><bdi>{scene.rows[row].label}</bdi> <small>{scene.rows[row].members[0]}</small></th>
              {kinds.map((kind) => <><td class={kind}>{formatNumber(scene.value(kind, row, held.column))}</td>{kind === "raw" && scene.certified && <td class="low">{formatNumber(certifiedAt(scene, row, held.column))}</td>}</>)}
            </tr>
          ))}
        </tbody>
      </table>
      {order.length > MOST_QUERIES && <p class="note">{order.length - MOST_QUERIES} more queries have less; export all rows to see them.</p>}
    </section>
  );
}
