// The maps of the selected head, or the mean of several, computed in pieces so that the page stays responsive.

import { useEffect, useMemo, useState } from "preact/hooks";
import { type Kind, Layer, Mean, type Maps } from "./maps";
import type { Source } from "./source";
import type { Reading } from "./summary";

const KEPT = 4; // layers whose bytes are kept, so that going back is quick and memory stays small

const kept = new WeakMap<Source, Map<string, Layer>>();

export async function layerOf(source: Source, number: number, from: number, keep = true): Promise<Layer> {
  let layers = kept.get(source);
  if (!layers) kept.set(source, (layers = new Map()));
  const name = `${number} ${from}`;
  const cached = layers.get(name);
  if (cached) return cached;
  const { queries, keys, window } = source.summary;
  const rows = Math.min(window ?? Infinity, queries.texts.length - from);
  const layer = new Layer(await source.layer(number, from), rows, (keys ?? queries).texts.length);
  if (!keep) return layer;
  layers.set(name, layer);
  if (layers.size > KEPT) layers.delete(layers.keys().next().value!);
  return layer;
}

export const whenIdle = (work: () => void) => ("requestIdleCallback" in window ? requestIdleCallback(work) : setTimeout(work, 200));

export interface Computed {
  maps: Maps;
  error: number; // of any entry, relative to the largest of its head
  layer: number; // which maps these are: another head may have been selected since
  head: number;
  from: number;
  titles: Partial<Record<Kind, string>>;
  certified: Float32Array | null; // the certified part of each weight, NaN where unknown; null: not certified
}

const CACHED_HEADS = 2; // the head shown last, and the next one, which is computed in advance, like the same head of the next layer

const ready = new WeakMap<Layer, Map<number, Promise<Maps>>>();

function headOf(layer: Layer, head: number): Promise<Maps> {
  let heads = ready.get(layer);
  if (!heads) ready.set(layer, (heads = new Map()));
  const maps = heads.get(head) ?? layer.head(head);
  heads.delete(head);
  heads.set(head, maps); // the latest stays longest
  while (heads.size > CACHED_HEADS) heads.delete(heads.keys().next().value!);
  return maps;
}

function useHeadMaps(source: Source, layer: number, head: number, from: number): { computed: Computed | null; failed: string | null } {
  const [state, setState] = useState<{ computed: Computed | null; failed: string | null }>({ computed: null, failed: null });
  useEffect(() => {
    let wanted = true;
    const compute = async () => {
      if (layer !== 0 && head >= 0) {
        const packed = await layerOf(source, layer, from);
        const maps = await headOf(packed, head);
        if (head + 1 < packed.header.heads) whenIdle(() => void (wanted && headOf(packed, head + 1)));
        const below = source.summary.window === null ? source.summary.layers[source.summary.layers.indexOf(layer) + 1] : undefined;
        if (below !== undefined) whenIdle(() => void (wanted && layerOf(source, below, from).then((next) => void (wanted && headOf(next, head)), () => undefined)));
        return { maps, error: packed.error };
      }
      const mean = new Mean();
      let error = 0;
      for (const number of layer === 0 ? source.summary.layers : [layer]) {
        const packed = await layerOf(source, number, from);
        error = Math.max(error, packed.error);
        for (let index = 0; index < packed.header.heads && wanted; index++) {
          mean.add(await packed.head(index));
          await new Promise((resume) => setTimeout(resume));
        }
        if (!wanted) break;
      }
      return { maps: mean.maps(), error };
    };
    compute().then(
      (computed) => wanted && setState({ computed: { ...computed, layer, head, from, titles: {}, certified: null }, failed: null }),
      (error) => wanted && setState({ computed: null, failed: `The maps cannot be computed: ${error instanceof Error ? error.message : error}` }),
    );
    return () => void (wanted = false);
  }, [source, layer, head, from]);
  return state;
}

/** The maps of the selected head, with the weight that is readable as far as it is known. */
export function useMaps(source: Source, layer: number, head: number, from: number, reading: Reading | null): { computed: Computed | null; failed: string | null } {
  const { computed, failed } = useHeadMaps(source, layer, head, from);
  const [fraction, setFraction] = useState<{ of: string; fraction: Float32Array } | null>(null);
  const shown = computed && computed.head >= 0 ? source.summary.layers.indexOf(computed.layer) : -1;
  const certified = shown >= 0 && reading !== null && reading.certified[shown][computed!.head];
  const of = `${computed?.layer} ${computed?.head}`;
  useEffect(() => {
    let wanted = true;
    if (certified) source.certified(computed!.layer, computed!.head).then((found) => wanted && found && setFraction({ of, fraction: found }), () => undefined);
    return () => void (wanted = false);
  }, [source, of, certified]);
  const own = shown < 0 ? null : (reading?.own[shown] ?? null);
  const known = own !== null && own.every((share) => share !== null);
  const withReadable = useMemo(() => {
    const { raw, contribution } = computed?.maps ?? {};
    if (!computed || !raw || !contribution || shown < 0) return computed;
    const bounds = fraction?.of === of ? fraction.fraction : null;
    const readable = raw.map((weight, index) => {
      const left = Math.min(weight, Math.max(contribution[index], 0)) * (known ? own![index % own!.length]! : 1);
      return bounds && !Number.isNaN(bounds[index]) ? left * bounds[index] : left;
    });
    const title = `${known ? "readable" : "contributing"} weight${bounds ? "" : " at most"}`; // without bounds, all weight counts as certified
    return { ...computed, maps: { ...computed.maps, readable }, titles: { readable: title }, certified: bounds && raw.map((weight, index) => weight * bounds[index]) };
  }, [computed, fraction, own, known]);
  return { computed: withReadable, failed };
}
