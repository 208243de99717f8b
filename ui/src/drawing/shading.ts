// How a token shows a number and its certainty: solid where it is certified, hollow where it could be zero, dotted where unknown.

import { css, inkOn, step } from "./colors";
import type { Scene } from "./scene";

const FAINT = 6; // color steps that cannot be distinguished from none

/** certain: the certified share of the value; null where it was not computed. */
export function shadeToken(token: HTMLElement, value: number, limit: number, certain: number | null, scene: Scene): void {
  const { gamma, colors } = scene;
  const at = step(value, limit, gamma);
  if (Math.abs(at - 256) < FAINT) {
    token.style.background = token.style.boxShadow = token.style.color = "";
    token.dataset.certain = "";
    return;
  }
  const color = css(colors, at);
  const solid = step(value * (certain ?? 1), limit, gamma);
  const fill = css(colors, solid);
  token.dataset.certain = certain === null ? "unknown" : certain < 0.02 ? "hollow" : "solid";
  token.style.boxShadow = `inset 0 0 0 2px ${color}`;
  token.style.background = value < 0
    ? `repeating-linear-gradient(135deg, ${fill} 0 3px, transparent 3px 6px)` // hatched, which shows without colors too
    : certain === null ? `radial-gradient(${color} 35%, transparent 36%) 0 0 / 5px 5px` : certain < 0.02 ? "none" : fill;
  token.style.color = value > 0 && certain !== null && certain >= 0.02 ? inkOn(colors, solid) : "";
}
