// How the text and the maps are drawn: what they are shaded by, what is hidden, and what is searched for.

import type { Reading, Summary } from "../data/summary";
import type { Scene } from "../drawing/scene";
import { type Change, type Shade, SHADES, type View } from "../view";
import { SideSwitch } from "./ColumnView";
import { Term } from "./Term";

const NAMES: Record<Shade, string> = { raw: "raw", contribution: "contribution", readable: "readable" };

interface Properties {
  summary: Summary;
  view: View;
  scene: Scene | null;
  reading: Reading | null;
  onChange: Change;
}

export function RowControls({ summary, view, scene, reading, onChange }: Properties) {
  const hasSpecial = summary.queries.special.some(Boolean) || (summary.keys?.special.some(Boolean) ?? false);
  const needle = view.find.trim().toLowerCase();
  const matches = needle && scene ? scene.columns.filter((group) => group.label.toLowerCase().includes(needle)).length : 0;
  const peak = scene?.peak == null ? null : scene.columns[scene.peak];
  const sink = reading?.sinks[summary.layers.indexOf(view.layer)]?.[view.head] ?? -1;
  const shades = SHADES.filter((shade) => scene?.maps[shade]);
  return (
    <div class="controls" role="group" aria-label="how it is drawn">
      {summary.keys === null && <SideSwitch view={view} onChange={onChange} />}
      {shades.length > 1 && (
        <span role="radiogroup" aria-label="shade the text by" class="choices">
          shade by{" "}
          {shades.map((shade) => (
            <label><input type="radio" name="shade" checked={view.shade === shade} onChange={() => onChange({ shade })} /> {NAMES[shade]} <Term name={shade} terms={summary.terms} /></label>
          ))}
        </span>
      )}
      {summary.keys !== null && (
        <label>
          query token{" "}
          <select value={String(view.query)} onChange={(event) => onChange({ query: event.currentTarget.value === "null" ? null : Number(event.currentTarget.value) })}>
            <option value="null">none</option>
            {scene?.rows.map((group) => <option value={String(group.members[0])}>{`${group.label} at ${group.members[0]}`}</option>)}
          </select>
        </label>
      )}
      {peak && (
        <label><input type="checkbox" checked={!view.sink} onChange={(event) => onChange({ sink: !event.currentTarget.checked })} /> hide {peak.members.includes(sink) ? "the sink " : ""}‘<bdi>{peak.label}</bdi>’</label>
      )}
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
        find <input type="search" id="find" size={7} value={view.find} placeholder="token" onInput={(event) => onChange({ find: event.currentTarget.value })} />
        {view.find.trim() && <output>{matches} found</output>}
      </label>
    </div>
  );
}
