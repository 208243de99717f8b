// How the maps are drawn.

import type { Summary } from "./summary";
import type { View } from "./view";

interface Properties {
  summary: Summary;
  view: View;
  found: number;
  onChange: (change: Partial<View>) => void;
}

export function Controls({ summary, view, found, onChange }: Properties) {
  const hasSpecial = summary.queries.special.some(Boolean) || (summary.keys?.special.some(Boolean) ?? false);
  return (
    <div class="controls" role="group" aria-label="how the maps are drawn">
      <label title="Attention is mostly near zero: a low gamma shows small weights, 1 is linear">
        contrast{" "}
        <input type="range" min="0.15" max="1" step="0.05" value={view.gamma} onInput={(event) => onChange({ gamma: Number(event.currentTarget.value) })} />
        <output>γ {view.gamma.toFixed(2)}</output>
      </label>
      <label>
        colors{" "}
        <select value={view.scale} onChange={(event) => onChange({ scale: event.currentTarget.value as View["scale"] })}>
          <option value="shared">one scale for all maps</option>
          <option value="each">a scale for each map</option>
        </select>
      </label>
      {summary.queries.words && (
        <label><input type="checkbox" checked={view.words} onChange={(event) => onChange({ words: event.currentTarget.checked })} /> whole words</label>
      )}
      {hasSpecial && (
        <label><input type="checkbox" checked={view.special} onChange={(event) => onChange({ special: event.currentTarget.checked })} /> special tokens</label>
      )}
      {summary.window !== null && (
        <label>
          rows{" "}
          <input type="range" min="0" max={summary.queries.texts.length - summary.window} step="1" value={view.from} onChange={(event) => onChange({ from: Number(event.currentTarget.value) })} />
          <output>{view.from} to {view.from + summary.window - 1} of {summary.queries.texts.length}</output>
        </label>
      )}
      <label>
        find <input type="search" id="find" size={12} value={view.find} placeholder="a token" onInput={(event) => onChange({ find: event.currentTarget.value })} />
        {view.find.trim() && <output>{found} found</output>}
      </label>
    </div>
  );
}
