// In a notebook the page is in an iframe without an address: it sends the notebook what is selected.

export const FRAMED = window.parent !== window;

export function notifyNotebook(message: { view?: object; height?: number }): void {
  window.parent.postMessage({ identiformer: message }, "*");
}

/** Keep the iframe as high as the page. */
export function followHeight(): void {
  if (FRAMED) new ResizeObserver(() => notifyNotebook({ height: document.body.scrollHeight + 4 })).observe(document.body);
}
