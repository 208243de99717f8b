// The heads of one text; how many of their rows are certain is found out when it is asked for.

import { useState } from "preact/hooks";
import { HeadGrid, type Place } from "./HeadGrid";
import { Progress } from "./Progress";
import { ServedSource } from "./server";
import type { Source } from "./source";
import { COLOURINGS, type Coloring, type PerHead } from "./summary";
import { useJob } from "./useJob";
import type { Change, View } from "./view";

export function TextHeads({ source, view, dark, onChange }: { source: Source; view: View; dark: boolean; onChange: Change }) {
  const { model, queries, layers, heads, numbers } = source.summary;
  const served = source instanceof ServedSource ? source : null;
  const [certified, setCertified] = useState<PerHead | null>(null);
  const job = useJob();
  return (
    <HeadGrid
      title={`${model}, ${queries.texts.length} tokens`}
      layers={layers}
      heads={heads}
      numbers={served ? { ...numbers, certified } : numbers}
      meaning={(name) => COLOURINGS[name as Coloring]}
      place={view}
      dark={dark}
      onChange={onChange as (change: Partial<Place> | ((before: Place) => Partial<Place>)) => void}
    >
      {view.color === "certified" && !certified && served && job.progress === null && (
        <button type="button" onClick={() => job.start((onProgress) => served.certifyHeads(onProgress), setCertified)}>Certify some rows of every head</button>
      )}
      <Progress job={job} what="certifying heads" />
    </HeadGrid>
  );
}
