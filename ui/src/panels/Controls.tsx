// Settings of how the maps are drawn.

import type { Summary } from "../data/summary";
import type { View } from "../view";

interface Properties {
  summary: Summary;
  view: View;
  matches: number; // tokens that match the search
  onChange: (change: Partial<View>) => void;
}

export function Controls({ summary, view, matches, onChange }: Properties) {
  const hasSpecial = summary.queries.special.some(Boolean) || (summary.keys?.special.some(Boolean) ?? false);
  return (
    <div class="controls" role="group" aria-label="map settings">
      <label title="Color follows |weight|^γ. Most weights are near zero: a small γ makes them visible, γ = 1 is linear">
        contrast{" "}
        <input type="range" min="0.15" max="1" step="0.05" value={view.gamma} onInput={(event) => onChange({ gamma: Number(event.currentTarget.value) })} />
        <output>γ {view.gamma.toFixed(2)}</output>
      </label>
      <label>
        color scale{" "}
        <select value={view.scale} onChange={(event) => onChange({ scale: event.currentTarget.value as View["scale"] })}>
          <option value="shared">shared by all maps</option>
          <option value="separate">one per map</option>
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
        find <input type="search" id="find" size={12} value={view.find} placeholder="token" onInput={(event) => onChange({ find: event.currentTarget.value })} />
        {view.find.trim() && <output>{matches} found</output>}
      </label>
    </div>
  );
}
