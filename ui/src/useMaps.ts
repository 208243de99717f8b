// The maps of the chosen head, or the mean of several, made piece by piece so that the page never stands still.

import { useEffect, useState } from "preact/hooks";
import { Layer, Mean, type Maps } from "./maps";
import type { Source } from "./source";

const KEPT = 4; // layers that are kept unpacked, so that going back is quick and memory stays small

const kept = new WeakMap<Source, Map<string, Layer>>();

async function layerOf(source: Source, number: number, from: number): Promise<Layer> {
  let layers = kept.get(source);
  if (!layers) kept.set(source, (layers = new Map()));
  const name = `${number} ${from}`;
  const known = layers.get(name);
  if (known) return known;
  const { queries, keys, window } = source.summary;
  const rows = Math.min(window ?? Infinity, queries.texts.length - from);
  const layer = new Layer(await source.layer(number, from), rows, (keys ?? queries).texts.length);
  layers.set(name, layer);
  if (layers.size > KEPT) layers.delete(layers.keys().next().value!);
  return layer;
}

const whenIdle = (work: () => void) => ("requestIdleCallback" in window ? requestIdleCallback(work) : setTimeout(work, 200));

export interface Made {
  maps: Maps;
  error: number; // of any entry, as a share of the largest of its head
  layer: number; // which maps these are: those of another head may have been asked for since
  head: number;
  from: number;
}

const AHEAD = 2; // maps that are made before anybody asks: those of the next head, and those that were last looked at

const ready = new WeakMap<Layer, Map<number, Promise<Maps>>>();

function headOf(layer: Layer, head: number): Promise<Maps> {
  let made = ready.get(layer);
  if (!made) ready.set(layer, (made = new Map()));
  const known = made.get(head) ?? layer.head(head);
  made.delete(head);
  made.set(head, known); // the last one asked for stays longest
  while (made.size > AHEAD) made.delete(made.keys().next().value!);
  return known;
}

export function useMaps(source: Source, layer: number, head: number, from: number): { made: Made | null; failed: string | null } {
  const [state, setState] = useState<{ made: Made | null; failed: string | null }>({ made: null, failed: null });
  useEffect(() => {
    let wanted = true;
    const make = async () => {
      performance.mark("asked for maps");
      if (layer !== 0 && head >= 0) {
        const own = await layerOf(source, layer, from);
        const maps = await headOf(own, head);
        if (head + 1 < own.about.heads) whenIdle(() => void (wanted && headOf(own, head + 1)));
        return { maps, error: own.error };
      }
      const mean = new Mean();
      let error = 0;
      for (const number of layer === 0 ? source.summary.layers : [layer]) {
        const own = await layerOf(source, number, from);
        error = Math.max(error, own.error);
        for (let each = 0; each < own.about.heads && wanted; each++) {
          mean.add(await own.head(each));
          await new Promise((resume) => setTimeout(resume));
        }
        if (!wanted) break;
      }
      return { maps: mean.maps(), error };
    };
    make().then(
      (made) => wanted && setState({ made: { ...made, layer, head, from }, failed: null }),
      (error) => wanted && setState({ made: null, failed: `The maps cannot be made: ${error instanceof Error ? error.message : error}` }),
    );
    return () => void (wanted = false);
  }, [source, layer, head, from]);
  return state;
}
