// A question mark next to a term, which opens its definition.

import { useId } from "preact/hooks";

export function Term({ name, terms }: { name: string; terms: Record<string, string> }) {
  const id = useId();
  if (!terms[name]) return null;
  const title = name.replaceAll("_", " ");
  return (
    <>
      <button type="button" class="plain term" popovertarget={id} aria-label={`what ‘${title}’ means`}>?</button>
      <span id={id} popover="auto" class="definition" role="note"><b>{title}</b>: {terms[name]}.</span>
    </>
  );
}
