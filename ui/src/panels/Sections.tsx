// What is folded away at the bottom of the page. To add a section: a component, and an entry here.

import type { ComponentChildren } from "preact";
import type { Source } from "../data/source";
import type { Reading } from "../data/summary";
import type { Pointer } from "../drawing/pointer";
import type { Scene, Sides } from "../drawing/scene";
import { type Change, type View, withSection } from "../view";
import { AttributionPanel } from "./AttributionPanel";
import { ComparePanel } from "./ComparePanel";
import { ComparisonPanel } from "./ComparisonPanel";
import { Exports } from "./Exports";
import { Terms } from "./Help";
import { hasLayers, LayersPanel } from "./LayersPanel";
import { canMove, MovePanel } from "./MovePanel";

/** What every section may use. */
export interface SectionProperties {
  source: Source;
  view: View;
  scene: Scene; // the maps of the selected head
  sides: Sides;
  selected: number | null; // the selected row, as an index into scene.rows
  reading: Reading | null; // as far as it is computed
  pointer: Pointer;
  width: number; // of the page's content, in CSS pixels
  dark: boolean;
  onChange: Change;
  onSelect: (row: number) => void;
}

interface Section {
  name: string; // part of the address of a view that has it open
  title: string;
  applies?: (properties: SectionProperties) => boolean;
  content: (properties: SectionProperties) => ComponentChildren;
}

const SECTIONS: Section[] = [
  {
    name: "attribution",
    title: "Where did it come from",
    applies: ({ view, source }) => view.query !== null && source.summary.keys === null,
    content: ({ source, view, dark }) => <AttributionPanel source={source} token={view.query!} dark={dark} />,
  },
  {
    name: "move",
    title: "Move weight to another key",
    applies: canMove,
    content: (properties) => <MovePanel key={`${properties.view.layer} ${properties.view.head} ${properties.view.query}`} {...properties} />,
  },
  { name: "layers", title: "This token through all layers", applies: hasLayers, content: (properties) => <LayersPanel key={properties.source.summary.model} {...properties} /> },
  {
    name: "compare",
    title: "Compare head, text or model",
    applies: ({ source, view }) => view.layer !== 0 && view.head >= 0 && source.summary.window === null,
    content: (properties) => <ComparePanel {...properties} />,
  },
  {
    name: "maps",
    title: "Other maps",
    applies: ({ source, view }) => source.summary.maps.length > 0 && view.layer !== 0,
    content: (properties) => <ComparisonPanel {...properties} />,
  },
  { name: "terms", title: "What these mean", content: ({ source }) => <Terms terms={source.summary.terms} /> },
  { name: "export", title: "Export", content: (properties) => <Exports {...properties} /> },
];

export function Sections(properties: SectionProperties) {
  const { view, onChange } = properties;
  const open = view.open.split(" ");
  const applicable = SECTIONS.filter((section) => section.applies?.(properties) ?? true);
  const toggle = (name: string, opened: boolean) =>
    onChange((before) => ({ open: withSection(before.open, name, opened) }));
  return (
    <div class="sections">
      {applicable.map((section) => (
        <details class={`section ${section.name}`} open={open.includes(section.name)} onToggle={(event) => event.currentTarget.open !== open.includes(section.name) && toggle(section.name, event.currentTarget.open)}>
          <summary>{section.title}</summary>
          {open.includes(section.name) && section.content(properties)}
        </details>
      ))}
    </div>
  );
}
