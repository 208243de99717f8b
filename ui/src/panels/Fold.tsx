import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";

/** Part of the page that is folded away where the window is narrow. */
export function Fold({ title, children }: { title: string; children: ComponentChildren }) {
  const query = matchMedia("(max-width: 760px)");
  const [narrow, setNarrow] = useState(query.matches);
  useEffect(() => {
    const onChange = () => setNarrow(query.matches);
    query.addEventListener("change", onChange);
    return () => query.removeEventListener("change", onChange);
  }, []);
  return narrow ? <details class="fold"><summary>{title}</summary>{children}</details> : <>{children}</>;
}
