import { asPng, save, standalone } from "./pictures";

/** Buttons that save a drawing of the page. */
export function TakePicture({ name, drawing }: { name: string; drawing: () => SVGSVGElement | null }) {
  const take = async (kind: "svg" | "png") => {
    const svg = standalone(drawing()!);
    save(`${name}.${kind}`, kind === "svg" ? new Blob([svg], { type: "image/svg+xml" }) : await asPng(svg));
  };
  return (
    <span class="take">
      <button type="button" onClick={() => take("svg")} aria-label={`${name} as SVG`}>SVG</button>{" "}
      <button type="button" onClick={() => take("png")} aria-label={`${name} as PNG`}>PNG</button>
    </span>
  );
}
