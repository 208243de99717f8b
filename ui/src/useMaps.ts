// The maps of the chosen head, or the mean of several, made piece by piece so that the page never stands still.

import { useEffect, useState } from "preact/hooks";
import { Layer, Mean, type Maps } from "./maps";
import type { Source } from "./source";

const KEPT = 4; // layers that are kept unpacked, so that going back is quick and memory stays small

const kept = new WeakMap<Source, Map<number, Layer>>();

async function layerOf(source: Source, number: number): Promise<Layer> {
  let layers = kept.get(source);
  if (!layers) kept.set(source, (layers = new Map()));
  const known = layers.get(number);
  if (known) return known;
  const { queries, keys } = source.summary;
  const layer = new Layer(await source.layer(number), queries.texts.length, (keys ?? queries).texts.length);
  layers.set(number, layer);
  if (layers.size > KEPT) layers.delete(layers.keys().next().value!);
  return layer;
}

export interface Made {
  maps: Maps;
  error: number; // of any entry, as a share of the largest of its head
  layer: number; // which maps these are: those of another head may have been asked for since
  head: number;
}

export function useMaps(source: Source, layer: number, head: number): { made: Made | null; failed: string | null } {
  const [state, setState] = useState<{ made: Made | null; failed: string | null }>({ made: null, failed: null });
  useEffect(() => {
    let wanted = true;
    const make = async () => {
      performance.mark("asked for maps");
      if (layer !== 0 && head >= 0) {
        const own = await layerOf(source, layer);
        return { maps: await own.head(head), error: own.error };
      }
      const mean = new Mean();
      let error = 0;
      for (const number of layer === 0 ? source.summary.layers : [layer]) {
        const own = await layerOf(source, number);
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
      (made) => wanted && setState({ made: { ...made, layer, head }, failed: null }),
      (error) => wanted && setState({ made: null, failed: `The maps cannot be made: ${error instanceof Error ? error.message : error}` }),
    );
    return () => void (wanted = false);
  }, [source, layer, head]);
  return state;
}
