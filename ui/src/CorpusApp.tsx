// The page of a corpus run: heads colored by any of its numbers, and all numbers of the selected head.

import { useState } from "preact/hooks";
import type { CorpusSummary } from "./data/summary";
import { formatNumber, printable } from "./drawing/format";
import { HeadGrid } from "./panels/HeadGrid";

export function CorpusApp({ summary }: { summary: CorpusSummary }) {
  const { layers, heads, numbers, terms } = summary;
  const names = Object.keys(numbers);
  const [selection, setSelection] = useState({ layer: 0, head: -1, color: names[0] });
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  const layer = layers.indexOf(selection.layer);
  const headSelected = layer >= 0 && selection.head >= 0;
  const mean = (values: (number | null)[]) => {
    const defined = values.filter((value): value is number => value !== null);
    return defined.length ? defined.reduce((sum, value) => sum + value, 0) / defined.length : null;
  };
  return (
    <div class="identiformer" data-theme={dark ? "dark" : "light"}>
      <main class="explorer">
        <HeadGrid
          title={`${summary.model}, ${summary.corpus}`} layers={layers} heads={heads} numbers={numbers} terms={terms}
          selection={selection} dark={dark} onChange={(change) => setSelection((before) => ({ ...before, ...(typeof change === "function" ? change(before) : change) }))}
        />
        <div class="main">
          <h2 class="selected-head">{layer < 0 ? "Select a head" : headSelected ? `Layer ${selection.layer}, head ${selection.head}` : `Layer ${selection.layer}`}</h2>
          <table class="row-table">
            <caption>Means over the corpus ‘<bdi>{printable(summary.corpus)}</bdi>’.</caption>
            <thead><tr><th scope="col">quantity</th>{headSelected && <th scope="col">this head</th>}{layer >= 0 && <th scope="col">layer mean</th>}<th scope="col">mean over all heads</th></tr></thead>
            <tbody>
              {names.map((name) => (
                <tr>
                  <th scope="row">{name.replaceAll("_", " ")}{terms[name] && <small class="note"> {terms[name]}</small>}</th>
                  {headSelected && <td>{formatNumber(numbers[name][layer][selection.head])}</td>}
                  {layer >= 0 && <td>{formatNumber(mean(numbers[name][layer]))}</td>}
                  <td>{formatNumber(mean(numbers[name].flat()))}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      </main>
    </div>
  );
}
