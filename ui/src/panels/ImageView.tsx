// The picture that a vision model reads, each patch covered by its weight in the selected row. A patch selects its row.

import { useRef } from "preact/hooks";
import type { PatchedImage } from "../data/summary";
import { css, step } from "../drawing/colors";
import { formatNumber } from "../drawing/format";
import type { Group } from "../drawing/grouping";
import { standalone } from "../drawing/pictures";
import type { Scene } from "../drawing/scene";
import type { Shade, View } from "../view";
import { PictureButtons } from "./PictureButtons";

const [SIDE, STRONGEST] = [384, 0.72]; // of the longer side, in px; the opacity of the largest weight

interface Properties {
  image: PatchedImage;
  scene: Scene;
  view: View;
  selected: number | null;
  onSelect: (group: Group) => void;
}

export function ImageView({ image, scene, view, selected, onSelect }: Properties) {
  const drawing = useRef<SVGSVGElement>(null);
  const kind: Shade = scene.maps[view.shade] ? view.shade : "raw";
  const unit = SIDE / Math.max(image.rows, image.columns);
  const [width, height] = [unit * image.columns, unit * image.rows];
  const column = view.side === "column" ? scene.columns.findIndex(({ members }) => members[0] === view.query) : -1;
  const value = (position: number) => {
    if (view.side === "column") {
      const row = scene.rows.findIndex(({ members }) => members[0] === position);
      return column < 0 || row < 0 ? 0 : scene.value(kind, row, column);
    }
    const key = scene.columns.findIndex(({ members }) => members[0] === position);
    return selected === null || key < 0 ? 0 : scene.value(kind, selected, key);
  };
  const positions = Array.from({ length: image.rows * image.columns }, (_, patch) => image.first + patch);
  const values = positions.map(value);
  const limit = Math.max(...values.map(Math.abs), 1e-9);
  const specials = Array.from({ length: image.first }, (_, position) => position);
  const groupAt = (position: number) => scene.rows.find(({ members }) => members[0] === position);
  const select = (position: number) => { const group = groupAt(position); if (group) onSelect(group); };
  const onKey = (event: KeyboardEvent) => {
    const move = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -image.columns, ArrowDown: image.columns }[event.key];
    if (move === undefined || view.query === null) return;
    event.preventDefault();
    select(Math.max(0, Math.min(image.first + positions.length - 1, view.query + move)));
  };
  return (
    <div class="picture">
      <div class="patches" tabIndex={0} role="application" onKeyDown={onKey} aria-label={`picture of ${image.rows} by ${image.columns} patches; arrow keys select another row`}>
      <svg ref={drawing} viewBox={`0 0 ${width} ${height + 44}`} aria-hidden="true">
        <image href={image.picture} width={width} height={height} preserveAspectRatio="none" />
        {positions.map((position, patch) => {
          const [x, y] = [(patch % image.columns) * unit, Math.floor(patch / image.columns) * unit];
          const held = position === view.query;
          return (
            <rect
              x={x} y={y} width={unit} height={unit} data-position={position} onClick={() => select(position)}
              fill={css(scene.colors, step(Math.sign(values[patch]), 1, 1))} fill-opacity={(STRONGEST * (Math.abs(values[patch]) / limit) ** scene.gamma).toFixed(3)}
              stroke={held ? "#d55e00" : "#888"} stroke-width={held ? 3 : 0.3}
            ><title>{`patch ${Math.floor(patch / image.columns)},${patch % image.columns}: ${formatNumber(values[patch])}`}</title></rect>
          );
        })}
        <text x={0} y={height + 16} font-size={12} fill={scene.ink}>{`${scene.titles[kind]}: clear 0, strongest ${formatNumber(limit)}`}</text>
        <text x={0} y={height + 34} font-size={12} fill={scene.ink}>{`framed: the ${view.side === "row" ? "query" : "key"}; rows and columns of patches count from 0`}</text>
      </svg>
      </div>
      <p class="choices">
        {specials.map((position) => <button type="button" aria-pressed={view.query === position} onClick={() => select(position)}><bdi>{groupAt(position)?.label ?? ""}</bdi> {formatNumber(value(position))}</button>)}
        <PictureButtons name="patches" svg={() => standalone(drawing.current!)} />
      </p>
    </div>
  );
}
