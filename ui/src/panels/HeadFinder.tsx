// Heads by what they point at and by what their weight is: pattern × category, the clearest first.

import type { Category, Reading, Summary } from "../data/summary";
import { CATEGORIES } from "../data/summary";
import { formatPercent } from "../drawing/format";
import type { Change, View } from "../view";

const MOST = 40;

interface Found {
  layer: number;
  head: number;
  share: number | null;
}

export function HeadFinder({ summary, reading, view, onChange }: { summary: Summary; reading: Reading | null; view: View; onChange: Change }) {
  const { patterns } = summary;
  if (!patterns) return null;
  const categories = CATEGORIES.filter((category) => reading?.categories.some((layer) => layer.includes(category)));
  const found = findHeads(summary, reading, view);
  const chosen = view.pattern !== "" || view.category !== "";
  const count = (pattern: string) => patterns.shares[pattern].flat().filter((share) => (share ?? 0) >= patterns.dominant_share).length;
  return (
    <section class="finder" aria-label="find heads">
      <h3>Find heads</h3>
      <label>
        pattern <select value={view.pattern} onChange={(event) => onChange({ pattern: event.currentTarget.value })}>
          <option value="">any</option>
          {Object.keys(patterns.shares).map((pattern) => <option value={pattern}>{pattern} ({count(pattern)})</option>)}
        </select>
      </label>{" "}
      {categories.length > 0 && (
        <label>
          category <select value={view.category} onChange={(event) => onChange({ category: event.currentTarget.value })}>
            <option value="">any</option>
            {categories.map((category) => <option value={category}>{category}</option>)}
          </select>
        </label>
      )}
      {view.pattern && <p class="note">{view.pattern}: attends {patterns.meanings[view.pattern]}, with at least {formatPercent(patterns.dominant_share)} of its weight.</p>}
      {chosen && (
        <>
          <p class="note" role="status">{found.length === 0 ? "No head." : `${found.length} ${found.length === 1 ? "head" : "heads"}${found.length > MOST ? `, the first ${MOST}` : ""}:`}</p>
          <ul>
            {found.slice(0, MOST).map(({ layer, head, share }) => (
              <li><button type="button" aria-pressed={view.layer === layer && view.head === head} onClick={() => onChange({ layer, head })}>{layer}.{head}{share !== null && <small> {formatPercent(share)}</small>}</button></li>
            ))}
          </ul>
        </>
      )}
    </section>
  );
}

function findHeads({ layers, heads, patterns }: Summary, reading: Reading | null, { pattern, category }: View): Found[] {
  const found: Found[] = [];
  layers.forEach((layer, index) => {
    for (let head = 0; head < heads; head++) {
      const share = pattern === "" ? null : (patterns!.shares[pattern]?.[index][head] ?? 0);
      const ofCategory = category === "" || reading?.categories[index][head] === (category as Category);
      if (ofCategory && (share === null || share >= patterns!.dominant_share)) found.push({ layer, head, share });
    }
  });
  return pattern === "" ? found : found.sort((a, b) => b.share! - a.share!);
}
