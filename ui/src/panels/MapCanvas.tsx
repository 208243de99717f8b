// One map on a canvas with tokens on its axes. Dragging zooms into a region; arrow keys and the wheel move it; a click selects a row.

import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import type { Kind } from "../data/maps";
import { onCanvas, paint } from "../drawing/colors";
import type { Group } from "../drawing/grouping";
import type { Pointer } from "../drawing/pointer";
import type { Scene } from "../drawing/scene";
import { Legend } from "./Legend";
import { MapFrames } from "./MapFrames";

/** The part of a map in view, as shares of its sides. */
export interface Region {
  left: number;
  top: number;
  right: number;
  bottom: number;
}

export const WHOLE: Region = { left: 0, top: 0, right: 1, bottom: 1 };

interface Properties {
  kind: Kind;
  scene: Scene;
  selected: number | null;
  selectedColumn?: number | null; // framed instead of the row
  pointer: Pointer;
  region?: Region;
  onRegion?: (region: Region) => void;
  onSelect: (row: number) => void;
  rowNames?: boolean;
  nullFrom?: number | null; // the first row that has a null space, if some have none
  caption?: string;
}

const [NAMES_WIDTH, NAMES_HEIGHT, NAME_SPACE, DRAGGED] = [76, 64, 11, 6]; // px

export function MapCanvas({ kind, scene, selected, selectedColumn = null, pointer, region = WHOLE, onRegion, onSelect, rowNames = true, nullFrom = null, caption }: Properties) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const box = useRef<HTMLDivElement>(null);
  const start = useRef<{ x: number; y: number } | null>(null);
  const [size, setSize] = useState(0);
  const [rows, columns] = [scene.rows.length, scene.columns.length];
  const part = { top: region.top * rows, bottom: region.bottom * rows, left: region.left * columns, right: region.right * columns };
  useLayoutEffect(() => {
    const observer = new ResizeObserver(() => setSize(Math.floor(box.current!.clientWidth)));
    observer.observe(box.current!);
    setSize(Math.floor(box.current!.clientWidth));
    return () => observer.disconnect();
  }, []);
  useLayoutEffect(() => {
    if (!size) return;
    const pixels = Math.round(size * devicePixelRatio);
    canvas.current!.width = canvas.current!.height = pixels;
    const hidden = scene.view.sink ? null : scene.peak;
    const image = paint(scene.maps[kind]!, columns, part, pixels, pixels, scene.limits[kind], scene.gamma, scene.colors, hidden);
    canvas.current!.getContext("2d")!.drawImage(onCanvas(image), 0, 0);
    performance.mark(`drawn ${kind}`);
  }, [kind, scene, size, region]);

  const shareAt = (event: MouseEvent) => {
    const { top, left } = box.current!.getBoundingClientRect();
    const within = (share: number) => Math.min(Math.max(share, 0), 1 - 1e-9);
    return { x: within((event.clientX - left) / size), y: within((event.clientY - top) / size) };
  };
  const cellAt = (event: MouseEvent) => {
    const { x, y } = shareAt(event);
    return { row: Math.floor(part.top + y * (part.bottom - part.top)), column: Math.floor(part.left + x * (part.right - part.left)) };
  };
  const move = (right: number, down: number) => {
    const [width, height] = [region.right - region.left, region.bottom - region.top];
    const left = Math.max(0, Math.min(1 - width, region.left + right * width));
    const top = Math.max(0, Math.min(1 - height, region.top + down * height));
    onRegion?.({ left, top, right: left + width, bottom: top + height });
  };
  const onUp = (event: MouseEvent) => {
    const [from, to] = [start.current, shareAt(event)];
    start.current = null;
    if (!from) return;
    const [width, height] = [Math.abs(to.x - from.x) * size, Math.abs(to.y - from.y) * size];
    if (!onRegion || Math.max(width, height) < DRAGGED) return onSelect(cellAt(event).row);
    const inside = (share: number, low: number, high: number) => low + share * (high - low);
    const side = Math.max(width, height) / size; // a square, so that cells keep their shape
    const [x, y] = [Math.min(from.x, 1 - side, to.x), Math.min(from.y, 1 - side, to.y)].map((share) => Math.max(0, share));
    onRegion({
      left: inside(x, region.left, region.right), right: inside(x + side, region.left, region.right),
      top: inside(y, region.top, region.bottom), bottom: inside(y + side, region.top, region.bottom),
    });
  };
  const onKey = (event: KeyboardEvent) => {
    const moves: Record<string, [number, number]> = { ArrowLeft: [-0.25, 0], ArrowRight: [0.25, 0], ArrowUp: [0, -0.25], ArrowDown: [0, 0.25] };
    if (!moves[event.key]) return;
    event.preventDefault();
    move(...moves[event.key]);
  };
  const zoomed = region.right - region.left < 1;
  useEffect(() => {
    const onWheel = (event: WheelEvent) => {
      if (!zoomed) return;
      event.preventDefault();
      move(event.deltaX / size, event.deltaY / size);
    };
    const element = box.current!;
    element.addEventListener("wheel", onWheel, { passive: false });
    return () => element.removeEventListener("wheel", onWheel);
  });

  return (
    <figure class={`map ${rowNames ? "with-names" : ""}`} data-kind={kind}>
      <figcaption><b class={`series ${kind}`}>{scene.titles[kind]}</b> {caption && <span>{caption}</span>}</figcaption>
      <div class="plot">
        {rowNames && <Names side="rows" groups={scene.rows} from={part.top} to={part.bottom} size={size} />}
        <div
          class="stack" ref={box} tabIndex={onRegion ? 0 : -1} role={onRegion ? "application" : undefined} aria-label={onRegion ? `${scene.titles[kind]}: arrow keys move the part in view` : undefined}
          onMouseMove={(event) => pointer.move(cellAt(event), event)}
          onMouseLeave={() => { pointer.move(null); start.current = null; }}
          onMouseDown={(event) => (start.current = shareAt(event))}
          onMouseUp={onUp}
          onKeyDown={onKey}
        >
          <canvas ref={canvas} role="img" aria-label={scene.describe(kind)} />
          <MapFrames part={part} size={size} selected={selected} selectedColumn={selectedColumn} pointer={pointer} line={nullFrom} />
        </div>
        <Names side="columns" groups={scene.columns} from={part.left} to={part.right} size={size} />
      </div>
      <Legend limit={scene.limits[kind]} scene={scene} map={scene.maps[kind]!} />
    </figure>
  );
}

/** The tokens along a side, as many as have room. */
function Names({ side, groups, from, to, size }: { side: "rows" | "columns"; groups: Group[]; from: number; to: number; size: number }) {
  const every = Math.max(1, Math.ceil((NAME_SPACE * (to - from)) / Math.max(size, 1)));
  const shown = groups.map((group, index) => ({ group, index })).filter(({ index }) => index >= Math.floor(from) && index + 0.5 < to && index % every === 0);
  const at = (index: number) => ((index + 0.5 - from) / (to - from)) * size;
  const label = (group: Group) => (group.label.length > 11 ? `${group.label.slice(0, 10)}…` : group.label);
  return side === "rows" ? (
    <svg class="names rows" width={NAMES_WIDTH} height={size} aria-hidden="true">
      <text x={9} y={size / 2} transform={`rotate(-90 9 ${size / 2})`} text-anchor="middle" class="axis">query</text>
      {shown.map(({ group, index }) => <text x={NAMES_WIDTH - 4} y={at(index) + 3} text-anchor="end">{label(group)}</text>)}
    </svg>
  ) : (
    <svg class="names columns" width={size} height={NAMES_HEIGHT} aria-hidden="true">
      {shown.map(({ group, index }) => <text x={at(index)} y={6} transform={`rotate(-90 ${at(index)} 6)`} dy={3} text-anchor="end">{label(group)}</text>)}
      <text x={size / 2} y={NAMES_HEIGHT - 2} text-anchor="middle" class="axis">key</text>
    </svg>
  );
}
