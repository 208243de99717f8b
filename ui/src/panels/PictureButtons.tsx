import { asPng, save } from "../drawing/pictures";

/** Buttons that save a picture. */
export function PictureButtons({ name, svg }: { name: string; svg: () => string }) {
  const savePicture = async (format: "svg" | "png") =>
    save(`${name}.${format}`, format === "svg" ? new Blob([svg()], { type: "image/svg+xml" }) : await asPng(svg()));
  return (
    <span class="picture-buttons">
      <button type="button" onClick={() => savePicture("svg")} aria-label={`${name} as SVG`}>SVG</button>{" "}
      <button type="button" onClick={() => savePicture("png")} aria-label={`${name} as PNG`}>PNG</button>
    </span>
  );
}
