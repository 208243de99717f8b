// Raw attention next to another map of the same head, with tokens on the axes, and zoom.

import { useEffect, useState } from "preact/hooks";
import type { Kind } from "../data/maps";
import type { Summary } from "../data/summary";
import { groupOf } from "../drawing/grouping";
import type { Pointer } from "../drawing/pointer";
import type { Scene } from "../drawing/scene";
import { type Change, MAP_CHOICES, type View } from "../view";
import { MapCanvas, type Region, WHOLE } from "./MapCanvas";
import { Term } from "./Term";

interface Properties {
  scene: Scene;
  summary: Summary;
  view: View;
  selected: number | null;
  pointer: Pointer;
  onSelect: (row: number) => void;
  onChange: Change;
}

export function MapPair({ scene, summary, view, selected, pointer, onSelect, onChange }: Properties) {
  const [region, setRegion] = useState<Region>(WHOLE);
  useEffect(() => setRegion(WHOLE), [scene.rows, scene.columns]);
  // Where outputs determine all weights, effective attention is raw attention, and the null component is empty.
  const determined = summary.numbers.nullity?.flat().every((nullity) => nullity === 0) ?? false;
  const choices = MAP_CHOICES.filter((kind) => scene.maps[kind] && !(determined && (kind === "effective" || kind === "null")));
  const second: Kind | undefined = choices.includes(view.map) ? view.map : choices[0];
  const kinds: Kind[] = [...(scene.maps.raw ? (["raw"] as Kind[]) : []), ...(second ? [second] : [])];
  const zoom = (factor: number) => setRegion((before) => {
    const side = Math.min(1, (before.right - before.left) * factor);
    const start = (low: number, high: number) => Math.max(0, Math.min(1 - side, (low + high - side) / 2));
    const [left, top] = [start(before.left, before.right), start(before.top, before.bottom)];
    return { left, top, right: left + side, bottom: top + side };
  });
  const column = view.side === "column" && summary.keys === null ? groupOf(scene.columns, view.query) : null;
  return (
    <section class="maps" aria-label="maps">
      <div class="map-tools">
        {choices.length > 1 && (
          <label><span class="visually-hidden">map next to raw attention</span><select value={second} onChange={(event) => onChange({ map: event.currentTarget.value as Kind })}>{choices.map((kind) => <option value={kind}>{scene.titles[kind]}</option>)}</select></label>
        )}
        <Term name={second ?? "raw"} terms={summary.terms} />
        <button type="button" onClick={() => zoom(0.5)} aria-label="zoom in">+</button>
        <button type="button" onClick={() => zoom(2)} aria-label="zoom out" disabled={region === WHOLE}>−</button>
        <button type="button" onClick={() => setRegion(WHOLE)} disabled={region === WHOLE}>whole</button>
        {kinds.length > 1 && <label><input type="checkbox" checked={view.scale === "shared"} onChange={(event) => onChange({ scale: event.currentTarget.checked ? "shared" : "separate" })} /> same scale</label>}
        <label>contrast <input type="range" min="0.15" max="1" step="0.05" value={view.gamma} onInput={(event) => onChange({ gamma: Number(event.currentTarget.value) })} /></label>
      </div>
      <div class="pair">
        {kinds.map((kind, index) => (
          <MapCanvas key={index} kind={kind} scene={scene} selected={selected} selectedColumn={column} pointer={pointer} region={region} onRegion={setRegion} onSelect={onSelect} rowNames={index === 0} nullFrom={view.words || !view.special ? null : summary.ambiguous_from} />
        ))}
      </div>
    </section>
  );
}
