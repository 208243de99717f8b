// What a corpus showed: heads, colored by any of its numbers, and all numbers of the chosen one.

import { useState } from "preact/hooks";
import { HeadGrid } from "./HeadGrid";
import { number, shown } from "./shown";
import { embeddedText } from "./source";
import type { PerHead } from "./summary";

export interface CorpusSummary {
  model: string;
  corpus: string;
  layers: number[];
  heads: number;
  numbers: Record<string, PerHead>;
}

export function embeddedCorpus(): CorpusSummary | null {
  return JSON.parse(embeddedText("identiformer-corpus") ?? "null");
}

const MEANINGS: Record<string, string> = {
  null_mass: "share of a row that the output cannot see", correlation: "of raw with effective attention", nullity: "dimensions of a row that the output cannot see",
  rank: "dimensions of a row that the output can see", null_space_share: "rows that have a null space", negative_share: "of effective attention that is below zero",
  identified: "rows that the output tells", identified_on_simplex: "rows that the output tells among attention",
};

export function CorpusApp({ summary }: { summary: CorpusSummary }) {
  const names = Object.keys(summary.numbers);
  const [place, setPlace] = useState({ layer: 0, head: -1, color: names[0] });
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  const at = summary.layers.indexOf(place.layer);
  const mean = (values: (number | null)[]) => {
    const known = values.filter((value): value is number => value !== null);
    return known.length ? known.reduce((sum, value) => sum + value, 0) / known.length : null;
  };
  return (
    <div class="identiformer" data-theme={dark ? "dark" : "light"}>
      <div class="explorer">
        <HeadGrid
          title={`${summary.model}, ${summary.corpus}`} layers={summary.layers} heads={summary.heads} numbers={summary.numbers} meaning={(name) => MEANINGS[name] ?? "mean over the texts of the corpus"}
          place={place} dark={dark} onChange={(change) => setPlace((before) => ({ ...before, ...(typeof change === "function" ? change(before) : change) }))}
        />
        <div class="main">
          <h2 class="place">{at < 0 ? "Choose a head" : place.head < 0 ? `Layer ${place.layer}` : `Layer ${place.layer}, head ${place.head}`}</h2>
          <table class="row-table">
            <caption>Means over the texts of <bdi>{shown(summary.corpus)}</bdi>.</caption>
            <thead><tr><th scope="col">number</th>{at >= 0 && place.head >= 0 && <th scope="col">this head</th>}{at >= 0 && <th scope="col">mean of the layer</th>}<th scope="col">mean of all heads</th></tr></thead>
            <tbody>
              {names.map((name) => (
                <tr>
                  <th scope="row">{name.replaceAll("_", " ")}{MEANINGS[name] && <small class="note"> {MEANINGS[name]}</small>}</th>
                  {at >= 0 && place.head >= 0 && <td>{number(summary.numbers[name][at][place.head])}</td>}
                  {at >= 0 && <td>{number(mean(summary.numbers[name][at]))}</td>}
                  <td>{number(mean(summary.numbers[name].flat()))}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      </div>
    </div>
  );
}
