// Token text is data: marks that would reorder or hide what stands around them are shown by their number.

const UNSEEN = /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g;

export function shown(text: string): string {
  return text.replace(UNSEEN, (mark) => `⟨U+${mark.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`);
}

/** A literal of Python (and of JSON) in which such marks are escaped. */
export function literal(text: string): string {
  return JSON.stringify(text).replace(UNSEEN, (mark) => `\\u${mark.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

/** A number in as many digits as a person reads. */
export function number(value: number | null | undefined): string {
  if (value === null || value === undefined || Number.isNaN(value)) return "—";
  return value.toFixed(3).replace(/^-(?!0\.000$)/, "−").replace("-", "");
}
