/** What the shading of tokens means. */
export function Marks({ certified, negative, framed, written = false }: { certified: boolean; negative: boolean; framed: string; written?: boolean }) {
  return (
    <p class="note marks" aria-hidden="true">
      <i class="mark solid" /> certified <i class="mark hollow" /> could be zero {!certified && <><i class="mark dotted" /> not certified </>}
      {negative && <><i class="mark hatched" /> negative </>}<i class="mark framed" /> {framed}{written && <>, <u>underlined</u>: written by the model</>}
    </p>
  );
}
