// Contributions of input tokens (left to right) to one hidden vector, by layer (top to bottom).

import type { Ref } from "preact";
import { useMemo } from "preact/hooks";
import { css, DARK, largestMagnitude, LIGHT, onCanvas, paint, table } from "../drawing/colors";
import { printable } from "../drawing/format";

const [LEFT, WIDTH, LINE, TOP, FOOT] = [64, 860, 16, 20, 96];
const GAMMA = 0.5;
const STOPS = [0, 0.01, 0.03, 0.06, 0.1, 0.2, 0.3, 0.45, 0.6, 0.8, 1];
const SPACING = 10; // between two names, so that they can be read

interface Properties {
  rows: Float32Array[]; // by layer
  layers: number[];
  tokens: string[];
  token: number;
  dark: boolean;
  drawing: Ref<SVGSVGElement>;
  measured?: string; // what the colors show
  gradient?: string; // a name that no other picture on the page has
}

export function AttributionPicture({ rows, layers, tokens, token, dark, drawing, measured = "contribution of an input token", gradient = "contributions" }: Properties) {
  const colors = useMemo(() => table(dark ? DARK : LIGHT), [dark]);
  const most = Math.max(...rows.map(largestMagnitude), 1e-6);
  const picture = useMemo(() => paintRows(rows, most, colors), [rows[0].buffer, token, colors]);
  const x = (position: number) => LEFT + ((position + 0.5) / tokens.length) * WIDTH;
  const bottom = TOP + rows.length * LINE;
  const named = namedTokens(rows, token, x);
  return (
    <svg ref={drawing} class="attribution-picture" viewBox={`0 0 ${LEFT + WIDTH + 20} ${bottom + FOOT + 40}`} role="img" aria-label={`${measured} by layer and position`}>
      <text x={x(token)} y={TOP - 5} text-anchor="middle">▼</text>
      <image x={LEFT} y={TOP} width={WIDTH} height={rows.length * LINE} preserveAspectRatio="none" style="image-rendering: pixelated" href={picture} />
      <rect x={LEFT} y={TOP} width={WIDTH} height={rows.length * LINE} class="edge" />
      {layers.map((layer, index) => <text x={LEFT - 8} y={TOP + (index + 0.5) * LINE + 4} text-anchor="end">{index === 0 ? `layer ${layer}` : layer}</text>)}
      {named.map((position) => (
        <text x={x(position)} y={bottom + 8} transform={`rotate(-60 ${x(position)} ${bottom + 8})`} text-anchor="end" font-weight={position === token ? "bold" : "normal"}>
          {printable(tokens[position]).slice(0, 14)}
        </text>
      ))}
      <linearGradient id={gradient}>
        {STOPS.map((share) => <stop offset={share} stop-color={css(colors, 256 + Math.round(share ** GAMMA * 256))} />)}
      </linearGradient>
      <rect x={LEFT} y={bottom + FOOT} width={180} height={10} fill={`url(#${gradient})`} />
      <rect x={LEFT} y={bottom + FOOT} width={180} height={10} class="edge" />
      <text x={LEFT} y={bottom + FOOT + 24}>0</text>
      <text x={LEFT + 180} y={bottom + FOOT + 24} text-anchor="end">{`${(100 * most).toFixed(0)}%`}</text>
      <text x={LEFT + 192} y={bottom + FOOT + 10}>{measured}</text>
    </svg>
  );
}

function paintRows(rows: Float32Array[], most: number, colors: Uint32Array): string {
  const columns = rows[0].length;
  const whole = new Float32Array(rows.length * columns);
  rows.forEach((row, index) => whole.set(row, index * columns));
  const part = { top: 0, bottom: rows.length, left: 0, right: columns };
  return onCanvas(paint(whole, columns, part, columns, rows.length, most, GAMMA, colors)).toDataURL("image/png");
}

/** Tokens with room for their name: the selected one, then those that contribute most. */
function namedTokens(rows: Float32Array[], token: number, x: (position: number) => number): number[] {
  const largest = Array.from(rows[0], (_, position) => (position === token ? Infinity : Math.max(...rows.map((row) => row[position]))));
  const named: number[] = [];
  for (const position of [...largest.keys()].sort((a, b) => largest[b] - largest[a]))
    if (named.every((other) => Math.abs(x(position) - x(other)) >= SPACING)) named.push(position);
  return named;
}
