// Which token of another text each token corresponds to.

/** The longest common subsequence of two lists of tokens; between matches, equally many replaced tokens correspond in order. -1: none. */
export function align(ours: string[], theirs: string[]): Int32Array {
  const aligned = new Int32Array(ours.length).fill(-1);
  if (ours.length === theirs.length && ours.every((token, index) => token === theirs[index])) return aligned.map((_, index) => index);
  const width = theirs.length + 1;
  const longest = new Uint16Array((ours.length + 1) * width); // of what remains after a pair of positions
  for (let i = ours.length - 1; i >= 0; i--)
    for (let j = theirs.length - 1; j >= 0; j--)
      longest[i * width + j] = ours[i] === theirs[j] ? longest[(i + 1) * width + j + 1] + 1 : Math.max(longest[(i + 1) * width + j], longest[i * width + j + 1]);
  let [i, j, unmatched, unmatchedThere] = [0, 0, 0, 0];
  const fill = () => {
    if (i - unmatched === j - unmatchedThere) for (let step = 0; unmatched + step < i; step++) aligned[unmatched + step] = unmatchedThere + step;
  };
  while (i < ours.length && j < theirs.length) {
    if (ours[i] === theirs[j]) {
      fill();
      aligned[i++] = j++;
      [unmatched, unmatchedThere] = [i, j];
    } else if (longest[(i + 1) * width + j] >= longest[i * width + j + 1]) i++;
    else j++;
  }
  [i, j] = [ours.length, theirs.length];
  fill();
  return aligned;
}

/** ours − theirs where both tokens of a cell correspond to tokens there, and 0 elsewhere. */
export function difference(ours: Float32Array, theirs: Float32Array, queries: Int32Array, keys: Int32Array, keysThere: number): Float32Array {
  const result = new Float32Array(ours.length);
  queries.forEach((query, row) => {
    if (query < 0) return;
    keys.forEach((key, column) => {
      const index = row * keys.length + column;
      if (key >= 0) result[index] = ours[index] - theirs[query * keysThere + key];
    });
  });
  return result;
}
