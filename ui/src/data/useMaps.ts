// The maps of the selected head, or the mean of several, computed in pieces so that the page stays responsive.

import { useEffect, useState } from "preact/hooks";
import { Layer, Mean, type Maps } from "./maps";
import type { Source } from "./source";

const KEPT = 4; // layers whose bytes are kept, so that going back is quick and memory stays small

const kept = new WeakMap<Source, Map<string, Layer>>();

async function layerOf(source: Source, number: number, from: number): Promise<Layer> {
  let layers = kept.get(source);
  if (!layers) kept.set(source, (layers = new Map()));
  const name = `${number} ${from}`;
  const cached = layers.get(name);
  if (cached) return cached;
  const { queries, keys, window } = source.summary;
  const rows = Math.min(window ?? Infinity, queries.texts.length - from);
  const layer = new Layer(await source.layer(number, from), rows, (keys ?? queries).texts.length);
  layers.set(name, layer);
  if (layers.size > KEPT) layers.delete(layers.keys().next().value!);
  return layer;
}

const whenIdle = (work: () => void) => ("requestIdleCallback" in window ? requestIdleCallback(work) : setTimeout(work, 200));

export interface Computed {
  maps: Maps;
  error: number; // of any entry, relative to the largest of its head
  layer: number; // which maps these are: another head may have been selected since
  head: number;
  from: number;
}

const CACHED_HEADS = 2; // the head shown last, and the next one, which is computed in advance

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

export function useMaps(source: Source, layer: number, head: number, from: number): { computed: Computed | null; failed: string | null } {
  const [state, setState] = useState<{ computed: Computed | null; failed: string | null }>({ computed: null, failed: null });
  useEffect(() => {
    let wanted = true;
    const compute = async () => {
      if (layer !== 0 && head >= 0) {
        const packed = await layerOf(source, layer, from);
        const maps = await headOf(packed, head);
        if (head + 1 < packed.header.heads) whenIdle(() => void (wanted && headOf(packed, head + 1)));
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
      (computed) => wanted && setState({ computed: { ...computed, layer, head, from }, failed: null }),
      (error) => wanted && setState({ computed: null, failed: `The maps cannot be computed: ${error instanceof Error ? error.message : error}` }),
    );
    return () => void (wanted = false);
  }, [source, layer, head, from]);
  return state;
}
