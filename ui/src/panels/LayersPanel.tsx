// The row of one token in every layer: raw attention averaged over heads, and the contribution of each key to the layer's output.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { unpackAll } from "../data/packing";
import { ServedSource } from "../data/server";
import type { LayerMaps } from "../data/summary";
import { useJob } from "../data/useJob";
import { printable } from "../drawing/format";
import { standalone } from "../drawing/pictures";
import { layerTable } from "../drawing/tables";
import { AttributionPicture } from "./AttributionPicture";
import { NumberButtons } from "./NumberButtons";
import { PictureButtons } from "./PictureButtons";
import { Progress } from "./Progress";
import type { SectionProperties } from "./Sections";

const MAP = "contribution";

export function LayersPanel({ source, view, dark }: SectionProperties) {
  const { summary } = source;
  const job = useJob();
  const drawings = { raw: useRef<SVGSVGElement>(null), other: useRef<SVGSVGElement>(null) };
  const [computed, setComputed] = useState<LayerMaps | null>(source.maps.get(MAP) ?? null);
  useEffect(() => {
    if (!computed && source instanceof ServedSource) job.start((onProgress) => source.map(MAP, onProgress), setComputed);
  }, [source]);
  const maps = useMemo(() => computed && { raw: unpackAll(computed.raw), other: unpackAll(computed.other) }, [computed]);
  const keys = summary.queries.texts;
  const query = view.query!;
  const rows = useMemo(() => {
    const rowOf = (layer: Float32Array) => layer.subarray(query * keys.length, (query + 1) * keys.length);
    return maps && { raw: maps.raw.map(rowOf), other: maps.other.map(rowOf) };
  }, [maps, query]);
  const titles = { raw: "raw attention, the mean over heads", other: "contribution to the layer's output" };
  return (
    <section class="layers" aria-label="one token through all layers">
      <p>Where <b><bdi>{printable(keys[query])}</bdi></b> at {query} attends in each layer, and what each key contributes there. Negative contributions are orange.</p>
      <Progress job={job} activity="computing contributions" />
      {rows && (["raw", "other"] as const).map((which) => (
        <figure class="strip">
          <figcaption>{titles[which]} <PictureButtons name={`${which === "raw" ? "attention" : "contributions"}-of-${query}-by-layer`} svg={() => standalone(drawings[which].current!)} /> <NumberButtons name={`${which === "raw" ? "attention" : "contributions"}-of-${query}-by-layer`} table={() => layerTable(summary.layers, rows[which], keys, which === "raw" ? "weight" : "contribution")} about={{ model: summary.model, text: summary.text, pair: summary.pair, query }} /></figcaption>
          <AttributionPicture rows={rows[which]} layers={summary.layers} tokens={keys} token={query} dark={dark} drawing={drawings[which]} measured={which === "raw" ? "attention weight" : "contribution of a key"} gradient={`layers-${which}`} />
        </figure>
      ))}
    </section>
  );
}

/** Whether contributions can be computed for every layer of this text. */
export const hasLayers = ({ source, view }: SectionProperties) =>
  view.query !== null && source.summary.maps.some(({ name }) => name === MAP);
