import { asPng, printPicture, save } from "../drawing/pictures";

/** Buttons that save a picture. */
export function PictureButtons({ name, svg }: { name: string; svg: () => string }) {
  const savePicture = async (format: "svg" | "png") =>
    save(`${name}.${format}`, format === "svg" ? new Blob([svg()], { type: "image/svg+xml" }) : await asPng(svg()));
  return (
    <span class="picture-buttons">
      <button type="button" onClick={() => savePicture("svg")} aria-label={`${name} as SVG`}>SVG</button>{" "}
      <button type="button" onClick={() => savePicture("png")} aria-label={`${name} as PNG`}>PNG</button>{" "}
      <button type="button" onClick={() => printPicture(name, svg())} aria-label={`${name} as PDF`} title="Opens the print dialog with a page of the picture's size; save it as PDF there">PDF</button>
    </span>
  );
}
