// Frames over a map: the selected row, the row and column under the mouse, and the line from which rows have a null space.

import { useEffect, useRef } from "preact/hooks";
import type { Part } from "../drawing/colors";
import type { Pointer } from "../drawing/pointer";

interface Properties {
  part: Part;
  size: number;
  selected: number | null;
  selectedColumn?: number | null; // instead of a row
  pointer: Pointer;
  line: number | null;
}

export function MapFrames({ part, size, selected, selectedColumn = null, pointer, line }: Properties) {
  const rowFrame = useRef<HTMLDivElement>(null);
  const columnFrame = useRef<HTMLDivElement>(null);
  const [high, wide] = [part.bottom - part.top, part.right - part.left];
  const y = (row: number) => ((row - part.top) / high) * size;
  useEffect(() => {
    const move = (frame: HTMLElement, index: number | null, first: number, count: number, axis: "X" | "Y") => {
      frame.hidden = index === null || index < first - 1 || index >= first + count;
      if (!frame.hidden) frame.style.transform = `translate${axis}(${(((index! - first) / count) * size).toFixed(1)}px)`;
    };
    const draw = () => {
      if (!rowFrame.current || !columnFrame.current) return; // the map is gone, and the mouse has moved since
      move(rowFrame.current, pointer.cell?.row ?? null, part.top, high, "Y");
      move(columnFrame.current, pointer.cell?.column ?? null, part.left, wide, "X");
    };
    draw();
    return pointer.follow(draw);
  }, [part.top, part.bottom, part.left, part.right, size, pointer]);
  const side = (count: number) => `${Math.max(size / count, 3)}px`;
  return (
    <>
      {line !== null && <div class="null-line" style={{ transform: `translateY(${y(line)}px)` }} title={`from row ${line} on, rows have a null space`} />}
      {selectedColumn !== null && <div class="frame selected" style={{ height: `${size}px`, width: side(wide), transform: `translateX(${((selectedColumn - part.left) / wide) * size}px)` }} />}
      {selectedColumn === null && selected !== null && <div class="frame selected" style={{ width: `${size}px`, height: side(high), transform: `translateY(${y(selected)}px)` }} />}
      <div class="frame" ref={rowFrame} hidden style={{ width: `${size}px`, height: side(high) }} />
      <div class="frame" ref={columnFrame} hidden style={{ height: `${size}px`, width: side(wide) }} />
    </>
  );
}
