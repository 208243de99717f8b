// One of the maps of the field next to raw attention, for the layer in view: these maps are of all heads together.

import { useEffect, useMemo, useState } from "preact/hooks";
import { unpackAll } from "../data/packing";
import { ServedSource } from "../data/server";
import type { Source } from "../data/source";
import type { LayerMaps } from "../data/summary";
import { useJob } from "../data/useJob";
import type { Pointer } from "../drawing/pointer";
import { makeScene, type Sides } from "../drawing/scene";
import type { Change, View } from "../view";
import { MapCanvas } from "./MapCanvas";
import { Progress } from "./Progress";

const ROUNDING = 2 ** -11; // of a score, relative to the largest of its map

interface Properties {
  source: Source;
  view: View;
  sides: Sides;
  selected: number | null;
  pointer: Pointer;
  dark: boolean;
  onSelect: (row: number) => void;
  onChange: Change;
}

export function ComparisonPanel({ source, view, sides, selected, pointer, dark, onSelect, onChange }: Properties) {
  const { summary } = source;
  const job = useJob();
  const choice = summary.maps.find(({ name }) => name === view.compare);
  const served = source instanceof ServedSource ? source : null;
  const [computed, setComputed] = useState<LayerMaps | null>(null);
  useEffect(() => {
    job.cancel();
    const kept = source.maps.get(view.compare) ?? null;
    setComputed(kept);
    if (served && choice && !kept) job.start((onProgress) => served.map(choice.name, onProgress), setComputed);
  }, [source, choice?.name]);
  const unpacked = useMemo(() => computed && { raw: unpackAll(computed.raw), other: unpackAll(computed.other) }, [computed]);
  const layer = summary.layers.indexOf(view.layer);
  const scene = useMemo(() => {
    if (!unpacked || !choice) return null;
    const maps = { raw: unpacked.raw[layer], other: unpacked.other[layer] };
    return makeScene(summary, sides, maps, ROUNDING, { ...view, head: -1, scale: "separate" }, dark, { other: choice.title });
  }, [unpacked, layer, summary, sides, view.gamma, dark]);
  const captions: Partial<Record<string, string>> = { raw: "the mean over heads", other: choice ? `${choice.formula}; ${choice.paper}` : "" };
  return (
    <section class="comparison" aria-label="comparison of maps">
      <label>
        compare raw attention of layer {view.layer} with{" "}
        <select value={choice?.name ?? ""} onChange={(event) => onChange({ compare: event.currentTarget.value })}>
          <option value="">no other map</option>
          {summary.maps.map(({ name, title }) => <option value={name}>{title}</option>)}
        </select>
      </label>
      <Progress job={job} activity={`computing ${choice?.title}`} />
      {scene && (
        <div class="pair wide">
          {scene.kinds.map((kind) => (
            <MapCanvas key={kind} kind={kind} scene={scene} caption={captions[kind]} selected={selected} pointer={pointer} onSelect={onSelect} />
          ))}
        </div>
      )}
    </section>
  );
}
