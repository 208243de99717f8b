// Pictures as files of their own: drawings of the page, and what is drawn only to be taken away.

import { shown } from "./shown";

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

/** A ground to draw on, and a pen for text. */
export function sheet(width: number, height: number, dark: boolean) {
  const root = make("svg", { width, height, viewBox: `0 0 ${width} ${height}`, "font-family": "sans-serif", "font-size": 12 });
  root.append(make("rect", { width, height, fill: dark ? "#111418" : "#fff" }));
  const write = (text: string, x: number, y: number, more: Record<string, string | number> = {}) => {
    const element = make("text", { x, y, fill: dark ? "#fff" : "#000", ...more });
    element.textContent = shown(text);
    root.append(element);
  };
  return { root, write, done: () => new XMLSerializer().serializeToString(root) };
}

/** A drawing with all that the page's style says of it written into it, on the page's ground. */
export function standalone(drawing: SVGSVGElement): string {
  const copy = drawing.cloneNode(true) as SVGSVGElement;
  const [own, copied] = [drawing, copy].map((root) => [root, ...root.querySelectorAll<SVGElement>("*")]);
  own.forEach((element, at) => {
    const style = getComputedStyle(element);
    for (const name of STYLED) copied[at].setAttribute(name, style.getPropertyValue(name));
    copied[at].removeAttribute("class");
  });
  const { width, height } = drawing.viewBox.baseVal;
  copy.setAttribute("width", String(width));
  copy.setAttribute("height", String(height));
  const ground = document.createElementNS(copy.namespaceURI!, "rect");
  ground.setAttribute("width", String(width));
  ground.setAttribute("height", String(height));
  ground.setAttribute("fill", getComputedStyle(document.body).backgroundColor);
  copy.prepend(ground);
  return new XMLSerializer().serializeToString(copy);
}

export async function asPng(svg: string): Promise<Blob> {
  const picture = new Image();
  const address = URL.createObjectURL(new Blob([svg], { type: "image/svg+xml" }));
  picture.src = address;
  await picture.decode();
  URL.revokeObjectURL(address);
  const canvas = document.createElement("canvas");
  canvas.width = picture.naturalWidth * 2;
  canvas.height = picture.naturalHeight * 2;
  canvas.getContext("2d")!.drawImage(picture, 0, 0, canvas.width, canvas.height);
  return new Promise((resolve, reject) => canvas.toBlob((blob) => (blob ? resolve(blob) : reject(new Error("no picture"))), "image/png"));
}
