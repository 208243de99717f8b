// The text, with the weights of the selected row as bars over its tokens. A token is a button that selects its row.

import { useEffect, useMemo, useRef } from "preact/hooks";
import { largestMagnitude } from "../drawing/colors";
import { type Group, groupOf } from "../drawing/grouping";
import type { Pointer } from "../drawing/pointer";
import { rowOf, type Scene } from "../drawing/scene";

const [BAR, ABOVE, BELOW] = [5, 26, 10]; // in px; the style leaves this much space over each token

interface Properties {
  scene: Scene;
  selected: number | null;
  pointer: Pointer;
  onSelect: (group: Group) => void;
  same: boolean; // whether queries and keys are the same tokens
  find: string;
}

export function TextBars({ scene, selected, pointer, onSelect, same, find }: Properties) {
  const keys = useRef<HTMLDivElement>(null);
  const picture = useRef<HTMLCanvasElement>(null);
  const needle = find.trim().toLowerCase();
  const matches = (label: string) => needle !== "" && label.toLowerCase().includes(needle);

  // All bars on one canvas: five hundred elements would be too slow to follow the mouse.
  useEffect(() => {
    const [flow, canvas] = [keys.current!, picture.current!];
    const tokens = [...flow.querySelectorAll<HTMLElement>(".token")];
    const styles = getComputedStyle(flow);
    const inks = scene.kinds.map((kind) => styles.getPropertyValue(`--${kind}`));
    let positions: { x: number; y: number }[] = [];
    let lit: HTMLElement | undefined;
    const draw = () => {
      const row = selected ?? pointer.cell?.row ?? null;
      const ratio = devicePixelRatio;
      const context = canvas.getContext("2d")!;
      context.setTransform(ratio, 0, 0, ratio, 0, -flow.scrollTop * ratio);
      context.clearRect(0, flow.scrollTop, canvas.width, canvas.height);
      lit?.classList.remove("lit");
      // In a long text, not every token has a row in view.
      lit = row === null || !same || row >= scene.rows.length ? undefined : tokens[groupOf(scene.columns, scene.rows[row].members[0]) ?? -1];
      lit?.classList.add("lit");
      if (row === null || row >= scene.rows.length) return;
      const rows = scene.kinds.map((kind) => rowOf(scene, kind, row));
      // Relative to the largest weight of the row: bars compare keys, colors compare rows.
      const limit = Math.max(...rows.map(largestMagnitude)) || 1;
      rows.forEach((weights, index) => {
        context.fillStyle = inks[index];
        positions.forEach(({ x, y }, column) => {
          if (y > flow.scrollTop + flow.clientHeight || y + ABOVE + BELOW < flow.scrollTop) return;
          const share = (Math.abs(weights[column]) / limit) ** scene.gamma;
          const left = x + (index - rows.length / 2) * (BAR + 1);
          if (weights[column] < 0) context.fillRect(left, y + ABOVE, BAR, share * BELOW);
          else context.fillRect(left, y + ABOVE - share * ABOVE, BAR, share * ABOVE);
        });
      });
    };
    const measure = () => {
      canvas.width = flow.clientWidth * devicePixelRatio;
      canvas.height = flow.clientHeight * devicePixelRatio;
      canvas.style.width = `${flow.clientWidth}px`;
      canvas.style.height = `${flow.clientHeight}px`;
      positions = tokens.map((token) => ({ x: token.offsetLeft + token.offsetWidth / 2, y: token.offsetTop + 2 }));
      draw();
    };
    const observer = new ResizeObserver(measure);
    observer.observe(flow);
    measure();
    flow.addEventListener("scroll", draw);
    // Print all of the text.
    const onPaper = () => { flow.style.maxHeight = "none"; measure(); };
    const onScreen = () => { flow.style.maxHeight = ""; measure(); };
    addEventListener("beforeprint", onPaper);
    addEventListener("afterprint", onScreen);
    const leave = pointer.follow(draw);
    return () => {
      leave();
      lit?.classList.remove("lit");
      observer.disconnect();
      flow.removeEventListener("scroll", draw);
      removeEventListener("beforeprint", onPaper);
      removeEventListener("afterprint", onScreen);
    };
  }, [scene, selected, pointer, same]);

  const onKey = (event: KeyboardEvent) => {
    const move = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity }[event.key];
    if (move === undefined) return;
    event.preventDefault();
    const buttons = [...(event.currentTarget as HTMLElement).querySelectorAll<HTMLElement>("button")];
    const focused = buttons.indexOf(document.activeElement as HTMLElement);
    const next = buttons[Math.max(0, Math.min(buttons.length - 1, focused + move))];
    next?.focus();
    next?.scrollIntoView({ block: "nearest" });
  };

  // Hundreds of tokens: rendered only when they change, not when a row is selected.
  const flow = useMemo(
    () =>
      scene.columns.map((group, column) => (
        <button
          type="button"
          class={`token ${group.special ? "special" : ""} ${matches(group.label) ? "hit" : ""}`}
          tabIndex={column === 0 ? 0 : -1}
          data-column={column}
          title={`${group.label} at ${group.members[0]}`}
        >
          <bdi>{group.label}</bdi>
        </button>
      )),
    [scene.columns, needle],
  );

  const over = (event: MouseEvent) => {
    const column = (event.target as HTMLElement).closest<HTMLElement>(".token")?.dataset.column;
    const row = column === undefined ? null : groupOf(scene.rows, scene.columns[Number(column)].members[0]);
    if (same) pointer.move(row === null ? null : { row, column: null });
  };

  return (
    <div class="flow-box">
    <canvas ref={picture} aria-hidden="true" />
    <div
      class="flow"
      ref={keys}
      role="group"
      aria-label={same ? "tokens: select one to see the weights of its row" : "keys"}
      onKeyDown={onKey}
      onMouseOver={over}
      onMouseLeave={() => pointer.move(null)}
      onClick={(event) => {
        const column = (event.target as HTMLElement).closest<HTMLElement>(".token")?.dataset.column;
        if (same && column !== undefined) onSelect(scene.columns[Number(column)]);
      }}
    >
      {flow}
    </div>
    <p class="note">Bars over a token: its {scene.kinds.map((kind, index) => <>{index > 0 && ", "}<b class={`series ${kind}`}>{kind}</b></>)} weight in the selected row.</p>
    </div>
  );
}
