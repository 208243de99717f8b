import { css } from "../drawing/colors";
import type { Scene } from "../drawing/scene";

/** The color scale of a map. */
export function Legend({ limit, scene, map }: { limit: number; scene: Scene; map: Float32Array }) {
  const negative = map.some((value) => value < -limit / 256);
  const stops = Array.from({ length: 17 }, (_, index) => css(scene.colors, (negative ? 0 : 256) + Math.round((index / 16) * (negative ? 512 : 256))));
  // Color follows |weight|^gamma, so the middle of a side is less than half of its end.
  const middle = limit * 0.5 ** (1 / scene.gamma);
  const digits = (value: number) => (value === 0 ? "0" : Number(value.toPrecision(2)).toString().replace("-", "−"));
  const marks = negative ? [-limit, -middle, 0, middle, limit] : [0, middle, limit];
  return (
    <div class="legend" aria-hidden="true">
      <div style={{ background: `linear-gradient(to right, ${stops.join(", ")})` }} />
      <p>{marks.map((mark) => <span>{digits(mark)}</span>)}</p>
    </div>
  );
}
