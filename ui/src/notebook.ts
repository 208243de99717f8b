// In a notebook the page stands in a frame without an address of its own: it tells the notebook what is looked at.

export const FRAMED = window.parent !== window;

export function tellNotebook(told: { view?: object; height?: number }): void {
  window.parent.postMessage({ identiformer: told }, "*");
}

/** Let the frame be as high as the page. */
export function followHeight(): void {
  if (FRAMED) new ResizeObserver(() => tellNotebook({ height: document.body.scrollHeight + 4 })).observe(document.body);
}
