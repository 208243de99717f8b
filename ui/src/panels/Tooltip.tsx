// The numbers of the cell or token under the mouse, next to it; hidden from screen readers, which have the table.

import { useEffect, useRef } from "preact/hooks";
import { formatNumber } from "../drawing/format";
import type { Pointer } from "../drawing/pointer";
import type { KeyFacts } from "../drawing/row";
import type { Scene } from "../drawing/scene";

const GAP = 14; // px from the mouse

export function Tooltip({ scene, facts, selected, pointer }: { scene: Scene; facts: KeyFacts[] | null; selected: number | null; pointer: Pointer }) {
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const write = () => {
      const { row = null, column = null } = pointer.cell ?? {};
      const [query, key] = [scene.rows[row ?? -1], scene.columns[column ?? -1]];
      const tip = box.current;
      if (!tip) return; // the page shows another text, and the mouse has moved since
      tip.hidden = !query || !key;
      if (tip.hidden) return;
      const fact = row === selected ? facts?.[column!] : undefined;
      const lines = scene.kinds.map((kind) => `${scene.titles[kind]} ${formatNumber(scene.value(kind, row!, column!))}`);
      if (fact?.low != null) lines.splice(1, 0, `certified in [${formatNumber(fact.low)}, ${formatNumber(fact.high)}]`);
      if (fact?.own != null) lines.push(`self-contribution of the key ${formatNumber(fact.own)}`);
      tip.textContent = [`${query.label} (${query.members[0]}) → ${key.label} (${key.members[0]})`, ...lines].join("\n");
      const { width, height } = tip.getBoundingClientRect();
      const x = pointer.at.x + GAP + width > innerWidth ? pointer.at.x - GAP - width : pointer.at.x + GAP;
      const y = pointer.at.y + GAP + height > innerHeight ? pointer.at.y - GAP - height : pointer.at.y + GAP;
      tip.style.transform = `translate(${Math.max(x, 0)}px, ${Math.max(y, 0)}px)`;
    };
    write();
    return pointer.follow(write);
  }, [scene, facts, selected, pointer]);
  return <div class="tooltip" ref={box} hidden aria-hidden="true" />;
}
