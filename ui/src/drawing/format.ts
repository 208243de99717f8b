// Token text is data: characters that would reorder or hide what is around them are shown by their code point.

const INVISIBLE = /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g;

export function printable(text: string): string {
  return text.replace(INVISIBLE, (character) => `⟨U+${character.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`);
}

/** A string literal of Python (and of JSON) in which such characters are escaped. */
export function stringLiteral(text: string): string {
  return JSON.stringify(text).replace(INVISIBLE, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

export function formatNumber(value: number | null | undefined): string {
  if (value === null || value === undefined || Number.isNaN(value)) return "—";
  return value.toFixed(3).replace(/^-(?!0\.000$)/, "−").replace("-", "");
}

/** Dimensions are counted; everything else about a head is a share or a correlation. */
export const formatHeadNumber = (value: number | null | undefined) => (Number.isInteger(value) ? String(value) : formatNumber(value));

export const formatPercent = (share: number) => `${(100 * share).toFixed(1)}%`;

/** A share in a sentence: no decimals, and no minus before zero. */
export const wholePercent = (share: number) => `${Math.round(100 * share) + 0}%`.replace("-", "−");
