// The keys of the selected row in one table, sorted by any column: weight, certified interval, contribution, own share, readable.

import type { CertificateState } from "../data/useCertificate";
import { formatNumber, formatPercent } from "../drawing/format";
import { type Column, type KeyFacts, sortFacts } from "../drawing/row";
import type { Scene } from "../drawing/scene";
import type { Change, View } from "../view";
import { Term } from "./Term";

const MOST_KEYS = 60;
const COLUMNS: [Column, string, string][] = [ // column, header, term
  ["weight", "weight", "raw"], ["low", "certified interval", "certified interval"], ["contribution", "contribution", "contribution"],
  ["own", "own share", "own"], ["readable", "readable", "readable"],
];

interface Properties {
  scene: Scene;
  facts: KeyFacts[] | null;
  selected: number | null;
  certificate: CertificateState;
  terms: Record<string, string>;
  view: View;
  onChange: Change;
}

export function RowTable({ scene, facts, selected, certificate, terms, view, onChange }: Properties) {
  if (!facts || selected === null) return <section class="row-box" aria-label="keys of the row"><p class="note">Select a token of the text, or a row of a map, to see its weights.</p></section>;
  const group = scene.rows[selected];
  const hidden = scene.hiddenWeight?.(selected);
  const visible = scene.maps.raw ? facts.filter((fact) => fact.weight > 0 || fact.low !== null) : facts; // later keys of a decoder are not
  const sorted = sortFacts(visible, view.sort).filter((fact) => view.sink || fact.column !== scene.peak);
  const shown = sorted.slice(0, MOST_KEYS);
  const most = Math.max(...shown.map((fact) => Math.max(fact.high ?? 0, fact.weight, fact.alternative ?? 0)), 1e-6);
  const columns = COLUMNS.filter(([column]) => facts.some((fact) => fact[column as keyof KeyFacts] !== null));
  const remaining = `${facts.some((fact) => fact.own !== null) ? "readable" : "contributing"}${certificate.certificate ? "" : " at most"}`;
  const header = (column: Column, title: string, term?: string) => (
    <th scope="col" aria-sort={view.sort === column ? "descending" : "none"}>
      <button type="button" class="plain" onClick={() => onChange({ sort: column })}>{title}{view.sort === column ? " ▾" : ""}</button>
      {term && <Term name={term} terms={terms} />}
    </th>
  );
  return (
    <section class="row-box" aria-label="keys of the row" tabIndex={0}>
      <table class="row-table">
        <caption>Row of <b><bdi>{group.label}</bdi></b> at {group.members[0]}{certificate.alternative && <span class="key-to-marks">, <span class="mark alternative">◇</span> an alternative with the same output</span>}</caption>
        <thead><tr>{header("position", "key")}{columns.map(([column, title, term]) => header(column, column === "readable" ? remaining : title, term))}</tr></thead>
        <tbody>
          {shown.map((fact) => (
            <tr>
              <th scope="row"><bdi>{fact.key.label}</bdi> <small>{fact.key.members[0]}</small></th>
              {columns.map(([column]) => <td class={column}>{cell(column, fact, most)}</td>)}
            </tr>
          ))}
          {hidden && (
            <tr class="rest"><th scope="row">hidden special tokens</th>{columns.map(([column]) => <td class={column}>{restOf(column, hidden)}</td>)}</tr>
          )}
        </tbody>
      </table>
      {sorted.length > shown.length && <p class="note">{sorted.length - shown.length} more keys have less; export the row to see all.</p>}
    </section>
  );
}

function restOf(column: Column, hidden: Partial<Record<string, number>>): string {
  const value = column === "weight" ? (hidden.raw ?? hidden.effective) : column === "contribution" || column === "readable" ? hidden[column] : undefined;
  return value === undefined ? "" : formatNumber(value);
}

function cell(column: Column, fact: KeyFacts, most: number) {
  if (column === "low") return <Interval fact={fact} most={most} />;
  if (column === "own") return fact.own === null ? "—" : formatPercent(fact.own);
  return formatNumber(fact[column as "weight" | "contribution" | "readable"]);
}

/** ├──●──┤: the certified interval, the weight as a dot, the alternative as a diamond. */
function Interval({ fact, most }: { fact: KeyFacts; most: number }) {
  const { low, high, weight, alternative } = fact;
  const x = (value: number) => 5 + (Math.min(value, most) / most) * 70;
  return (
    <span class="interval">
      <svg viewBox="0 0 80 16" aria-hidden="true">
        <line x1={5} x2={75} y1={8} y2={8} class="track" />
        {low !== null && <path d={high === null ? `M${x(low)} 3 v10` : `M${x(low)} 3 v10 M${x(low)} 8 H${x(high)} M${x(high)} 3 v10`} class="ends" />}
        {alternative !== null && <path d={`M${x(alternative) - 4} 8 l4 -4 l4 4 l-4 4 z`} class="alternative" />}
        <circle cx={x(weight)} cy={8} r={3.5} class="weight" />
      </svg>
      <span>{low === null ? "—" : high === null ? `at least ${low.toFixed(2)}` : `${low.toFixed(2)} – ${high.toFixed(2)}`}</span>
    </span>
  );
}
