// Small pictures of all heads' attention maps, computed one head after another while the page has nothing else to do.

import { useEffect, useState } from "preact/hooks";
import { DARK, largestMagnitude, LIGHT, paint, table } from "../drawing/colors";
import type { Source } from "./source";
import { layerOf, whenIdle } from "./useMaps";

const SIDE = 48; // px
const GAMMA = 0.5;

/** By layer and head, as far as they are computed. */
export type Thumbnails = (layer: number, head: number) => ImageData | null;

export function useThumbnails(source: Source, wanted: boolean, dark: boolean): Thumbnails {
  const [pictures, setPictures] = useState(new Map<string, ImageData>());
  useEffect(() => {
    setPictures(new Map());
    if (!wanted) return;
    let left = false;
    const { layers, heads, queries, keys } = source.summary;
    const [rows, columns] = [queries.texts.length, (keys ?? queries).texts.length];
    const colors = table(dark ? DARK : LIGHT);
    const compute = async () => {
      for (const number of layers) {
        const layer = await layerOf(source, number, 0, false);
        const found: [string, ImageData][] = [];
        for (let head = 0; head < heads && !left; head++) {
          await new Promise<void>((resume) => whenIdle(resume));
          const raw = await layer.raw(head);
          if (raw) found.push([`${number} ${head}`, paint(raw, columns, { top: 0, bottom: rows, left: 0, right: columns }, SIDE, SIDE, largestMagnitude(raw), GAMMA, colors)]);
        }
        if (left) return;
        setPictures((before) => new Map([...before, ...found]));
      }
    };
    compute().catch(() => undefined); // what is missing stays empty; the map of the selected head says why
    return () => void (left = true);
  }, [source, wanted, dark]);
  return (layer, head) => pictures.get(`${layer} ${head}`) ?? null;
}
