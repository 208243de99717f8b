// Pictures to save: drawings that are on the page, and drawings made only for a file.

import { printable } from "./format";

const SVG = "http://www.w3.org/2000/svg";
const STYLED = ["fill", "stop-color", "stroke", "stroke-width", "stroke-dasharray", "font-size", "font-family", "font-weight", "text-anchor", "opacity"];

export function save(name: string, content: Blob): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(content);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

export function make(name: string, attributes: Record<string, string | number>): SVGElement {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, String(value));
  return element;
}

/** An empty SVG, and a function that writes text on it. */
export function svgSheet(width: number, height: number, dark: boolean) {
  const root = make("svg", { width, height, viewBox: `0 0 ${width} ${height}`, "font-family": "sans-serif", "font-size": 12 });
  root.append(make("rect", { width, height, fill: dark ? "#111418" : "#fff" }));
  const write = (text: string, x: number, y: number, more: Record<string, string | number> = {}) => {
    const element = make("text", { x, y, fill: dark ? "#fff" : "#000", ...more });
    element.textContent = printable(text);
    root.append(element);
  };
  return { root, write, done: () => new XMLSerializer().serializeToString(root) };
}

/** A drawing with the page's style written into it, on the page's background. */
export function standalone(drawing: SVGSVGElement): string {
  const copy = drawing.cloneNode(true) as SVGSVGElement;
  const [originals, copies] = [drawing, copy].map((root) => [root, ...root.querySelectorAll<SVGElement>("*")]);
  originals.forEach((element, index) => {
    const style = getComputedStyle(element);
    for (const name of STYLED) copies[index].setAttribute(name, style.getPropertyValue(name));
    copies[index].removeAttribute("class");
  });
  const { width, height } = drawing.viewBox.baseVal;
  copy.setAttribute("width", String(width));
  copy.setAttribute("height", String(height));
  copy.prepend(make("rect", { width, height, fill: getComputedStyle(document.body).backgroundColor }));
  return new XMLSerializer().serializeToString(copy);
}

export async function asPng(svg: string): Promise<Blob> {
  const picture = new Image();
  const address = URL.createObjectURL(new Blob([svg], { type: "image/svg+xml" }));
  picture.src = address;
  await picture.decode();
  URL.revokeObjectURL(address);
  const bitmap = document.createElement("canvas");
  bitmap.width = picture.naturalWidth * 2;
  bitmap.height = picture.naturalHeight * 2;
  bitmap.getContext("2d")!.drawImage(picture, 0, 0, bitmap.width, bitmap.height);
  return new Promise((resolve, reject) => bitmap.toBlob((blob) => (blob ? resolve(blob) : reject(new Error("the picture could not be made"))), "image/png"));
}

/** Print a picture on a page of its own size: the browser's print dialog saves it as a vector PDF with its fonts. */
export function printPicture(name: string, svg: string): void {
  const sheet = document.createElement("div");
  sheet.className = "printed-picture";
  const picture = new DOMParser().parseFromString(svg, "image/svg+xml").documentElement;
  sheet.append(picture);
  const style = document.createElement("style");
  const [width, height] = ["width", "height"].map((side) => `${picture.getAttribute(side)}px`);
  // A pixel more of height, since a picture as high as its page can be rounded onto a second one.
  style.textContent = `@page { size: ${width} calc(${height} + 1px); margin: 0 }
    @media screen { .printed-picture { display: none } }
    @media print { body > :not(.printed-picture) { display: none !important } body { margin: 0 } .printed-picture > svg { display: block } }`;
  const title = document.title;
  document.title = name; // browsers suggest it as the file's name
  document.body.append(style, sheet);
  const done = () => {
    document.title = title;
    style.remove();
    sheet.remove();
  };
  addEventListener("afterprint", done, { once: true });
  print();
}
