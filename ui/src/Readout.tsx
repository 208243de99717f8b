// One line that says what is under the mouse.

import { useEffect, useRef } from "preact/hooks";
import type { Pointer } from "./pointer";
import type { Scene } from "./scene";
import { number } from "./shown";

export function Readout({ scene, pointer }: { scene: Scene; pointer: Pointer }) {
  const line = useRef<HTMLParagraphElement>(null);
  useEffect(() => {
    const tell = () => {
      const place = pointer.place;
      const known = place && place.column !== null && place.row < scene.rows.length && place.column < scene.columns.length;
      if (!known) {
        line.current!.textContent = "\u00a0";
        return;
      }
      const [row, column] = [scene.rows[place.row], scene.columns[place.column!]];
      const weights = scene.kinds.map((kind) => `${kind} ${number(scene.value(kind, place.row, place.column!))}`).join(", ");
      line.current!.textContent = `${row.label} (${row.members[0]}) → ${column.label} (${column.members[0]}): ${weights}`;
    };
    tell();
    return pointer.follow(tell);
  }, [scene, pointer]);
  return <p class="readout" ref={line} aria-hidden="true" />;
}
