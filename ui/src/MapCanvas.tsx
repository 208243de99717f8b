// One map on a canvas, with a cross that follows the mouse in all maps at once.

import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { css, paint } from "./colors";
import type { Scene } from "./scene";
import type { Kind } from "./maps";
import type { Pointer } from "./pointer";

export const TITLES: Record<Kind, [name: string, says: string]> = {
  raw: ["raw A", "what the softmax gives"],
  effective: ["effective A⊥", "what the output can see"],
  null: ["null A∥", "the rest, which changes nothing"],
};

interface Properties {
  kind: Kind;
  scene: Scene;
  size: number; // of a side, in CSS pixels
  locked: number | null;
  pointer: Pointer;
  onLock: (row: number) => void;
  onEnlarge: () => void;
  enlarged: boolean;
}

export function MapCanvas({ kind, scene, size, locked, pointer, onLock, onEnlarge, enlarged }: Properties) {
  const picture = useRef<HTMLCanvasElement>(null);
  const box = useRef<HTMLDivElement>(null);
  const rowFrame = useRef<HTMLDivElement>(null);
  const columnFrame = useRef<HTMLDivElement>(null);
  const rows = scene.rows.length;
  const columns = scene.columns.length;
  const [name, says] = TITLES[kind];

  useLayoutEffect(() => {
    const canvas = picture.current!;
    const dots = Math.round(size * devicePixelRatio);
    canvas.width = canvas.height = dots;
    const image = paint(scene.maps[kind]!, rows, columns, scene.limits[kind], scene.gamma, scene.colors, dots);
    const whole = document.createElement("canvas");
    whole.width = image.width;
    whole.height = image.height;
    whole.getContext("2d")!.putImageData(image, 0, 0);
    const context = canvas.getContext("2d")!;
    context.imageSmoothingEnabled = false;
    context.drawImage(whole, 0, 0, dots, dots);
    performance.mark(`drawn ${kind}`);
  }, [kind, scene, size]);

  useEffect(() => {
    const [row, column] = [rowFrame.current!, columnFrame.current!];
    const put = (frame: HTMLElement, at: number | null, count: number, axis: "X" | "Y") => {
      frame.hidden = at === null || at >= count;
      if (!frame.hidden) frame.style.transform = `translate${axis}(${((at! / count) * size).toFixed(1)}px)`;
    };
    const draw = () => {
      put(row, pointer.place?.row ?? null, rows, "Y");
      put(column, pointer.place?.column ?? null, columns, "X");
    };
    draw();
    return pointer.follow(draw);
  }, [rows, columns, size, pointer]);

  const frameSide = (count: number) => `${Math.max(size / count, 3)}px`;
  const find = (event: MouseEvent) => {
    const place = box.current!.getBoundingClientRect();
    const row = Math.floor(((event.clientY - place.top) / size) * rows);
    const column = Math.floor(((event.clientX - place.left) / size) * columns);
    return { row: Math.min(Math.max(row, 0), rows - 1), column: Math.min(Math.max(column, 0), columns - 1) };
  };

  return (
    <figure class="map" data-kind={kind} style={{ width: `${size + 2}px` }}>
      <figcaption>
        <button type="button" class="plain" aria-pressed={enlarged} title={enlarged ? "show all maps" : "enlarge this map"} onClick={onEnlarge}>
          <b class={`series ${kind}`}>{name}</b> <span>{says}</span>
        </button>
      </figcaption>
      <div
        class="stack"
        ref={box}
        style={{ width: `${size}px`, height: `${size}px` }}
        onMouseMove={(event) => pointer.move(find(event))}
        onMouseLeave={() => pointer.move(null)}
        onClick={(event) => onLock(find(event).row)}
      >
        <canvas ref={picture} role="img" aria-label={scene.describe(kind)} />
        {locked !== null && (
          <div class="frame held" style={{ width: `${size}px`, height: frameSide(rows), transform: `translateY(${(locked / rows) * size}px)` }} />
        )}
        <div class="frame" ref={rowFrame} hidden style={{ width: `${size}px`, height: frameSide(rows) }} />
        <div class="frame" ref={columnFrame} hidden style={{ height: `${size}px`, width: frameSide(columns) }} />
      </div>
      <Legend limit={scene.limits[kind]} scene={scene} negative={kind !== "raw"} width={size} />
    </figure>
  );
}

function Legend({ limit, scene, negative, width }: { limit: number; scene: Scene; negative: boolean; width: number }) {
  const stops = Array.from({ length: 17 }, (_, at) => css(scene.colors, (negative ? 0 : 256) + Math.round((at / 16) * (negative ? 512 : 256))));
  // Color follows |weight|^gamma, so the middle of a side stands for less than half of its end.
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
