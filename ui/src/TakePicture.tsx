import { asPng, save } from "./pictures";

/** Buttons that save a picture. */
export function TakePicture({ name, svg }: { name: string; svg: () => string }) {
  const take = async (kind: "svg" | "png") =>
    save(`${name}.${kind}`, kind === "svg" ? new Blob([svg()], { type: "image/svg+xml" }) : await asPng(svg()));
  return (
    <span class="take">
      <button type="button" onClick={() => take("svg")} aria-label={`${name} as SVG`}>SVG</button>{" "}
      <button type="button" onClick={() => take("png")} aria-label={`${name} as PNG`}>PNG</button>
    </span>
  );
}
