// One map on a canvas, with a crosshair that follows the mouse in all maps at once.

import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import type { Kind } from "../data/maps";
import { css, paint } from "../drawing/colors";
import type { Pointer } from "../drawing/pointer";
import { type Scene, TITLES } from "../drawing/scene";

interface Properties {
  kind: Kind;
  scene: Scene;
  size: number; // of a side, in CSS pixels
  terms: Record<string, string>;
  selected: number | null;
  pointer: Pointer;
  onSelect: (row: number) => void;
  onEnlarge: () => void;
  enlarged: boolean;
}

export function MapCanvas({ kind, scene, size, terms, selected, pointer, onSelect, onEnlarge, enlarged }: Properties) {
  const picture = useRef<HTMLCanvasElement>(null);
  const box = useRef<HTMLDivElement>(null);
  const rowFrame = useRef<HTMLDivElement>(null);
  const columnFrame = useRef<HTMLDivElement>(null);
  const rows = scene.rows.length;
  const columns = scene.columns.length;

  useLayoutEffect(() => {
    const canvas = picture.current!;
    const pixels = Math.round(size * devicePixelRatio);
    canvas.width = canvas.height = pixels;
    const image = paint(scene.maps[kind]!, rows, columns, scene.limits[kind], scene.gamma, scene.colors, pixels);
    const whole = document.createElement("canvas");
    whole.width = image.width;
    whole.height = image.height;
    whole.getContext("2d")!.putImageData(image, 0, 0);
    const context = canvas.getContext("2d")!;
    context.imageSmoothingEnabled = false;
    context.drawImage(whole, 0, 0, pixels, pixels);
    performance.mark(`drawn ${kind}`);
  }, [kind, scene, size]);

  useEffect(() => {
    const [row, column] = [rowFrame.current!, columnFrame.current!];
    const move = (frame: HTMLElement, index: number | null, count: number, axis: "X" | "Y") => {
      frame.hidden = index === null || index >= count;
      if (!frame.hidden) frame.style.transform = `translate${axis}(${((index! / count) * size).toFixed(1)}px)`;
    };
    const draw = () => {
      move(row, pointer.cell?.row ?? null, rows, "Y");
      move(column, pointer.cell?.column ?? null, columns, "X");
    };
    draw();
    return pointer.follow(draw);
  }, [rows, columns, size, pointer]);

  const frameSide = (count: number) => `${Math.max(size / count, 3)}px`;
  const cellAt = (event: MouseEvent) => {
    const { top, left } = box.current!.getBoundingClientRect();
    const row = Math.floor(((event.clientY - top) / size) * rows);
    const column = Math.floor(((event.clientX - left) / size) * columns);
    return { row: Math.min(Math.max(row, 0), rows - 1), column: Math.min(Math.max(column, 0), columns - 1) };
  };

  return (
    <figure class="map" data-kind={kind} style={{ width: `${size + 2}px` }}>
      <figcaption>
        <button type="button" class="plain" aria-pressed={enlarged} title={enlarged ? "show all maps" : "enlarge this map"} onClick={onEnlarge}>
          <b class={`series ${kind}`}>{TITLES[kind]}</b> <span>{terms[kind]}</span>
        </button>
      </figcaption>
      <div
        class="stack"
        ref={box}
        style={{ width: `${size}px`, height: `${size}px` }}
        onMouseMove={(event) => pointer.move(cellAt(event))}
        onMouseLeave={() => pointer.move(null)}
        onClick={(event) => onSelect(cellAt(event).row)}
      >
        <canvas ref={picture} role="img" aria-label={scene.describe(kind)} />
        {selected !== null && (
          <div class="frame selected" style={{ width: `${size}px`, height: frameSide(rows), transform: `translateY(${(selected / rows) * size}px)` }} />
        )}
        <div class="frame" ref={rowFrame} hidden style={{ width: `${size}px`, height: frameSide(rows) }} />
        <div class="frame" ref={columnFrame} hidden style={{ height: `${size}px`, width: frameSide(columns) }} />
      </div>
      <Legend limit={scene.limits[kind]} scene={scene} negative={kind !== "raw"} width={size} />
    </figure>
  );
}

function Legend({ limit, scene, negative, width }: { limit: number; scene: Scene; negative: boolean; width: number }) {
  const stops = Array.from({ length: 17 }, (_, index) => css(scene.colors, (negative ? 0 : 256) + Math.round((index / 16) * (negative ? 512 : 256))));
  // Color follows |weight|^gamma, so the middle of a side is less than half of its end.
  const middle = limit * 0.5 ** (1 / scene.gamma);
  const digits = (value: number) => (value === 0 ? "0" : Number(value.toPrecision(2)).toString().replace("-", "−"));
  const marks = negative ? [-limit, -middle, 0, middle, limit] : [0, middle, limit];
  return (
    <div class="legend" style={{ width: `${width}px` }} aria-hidden="true">
      <div style={{ background: `linear-gradient(to right, ${stops.join(", ")})` }} />
      <p>{marks.map((mark) => <span>{digits(mark)}</span>)}</p>
    </div>
  );
}
