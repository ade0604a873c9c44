import { useInspected } from "../attention/inspected";
import { TextBar } from "../attention/text_bar";
import { Tabs } from "../parts/controls";
import { Param, SetParams } from "../state/route";
import { HasFeature, info } from "../state/server";
import { text } from "../text";
import { EmbeddingsView } from "./embeddings";
import { LensView } from "./lens";
import { PipelineView } from "./pipeline";
import { PositionsView } from "./positions";

type Tab = keyof typeof text.inside.tabs;
const kTabs = Object.entries(text.inside.tabs) as [Tab, string][];

function OfText({ tab }: { tab: "lens" | "pipeline" }) {
  const found = useInspected();
  return (
    <>
      <TextBar found={found} />
      {found.ids.length > 0 &&
        (tab === "lens" ? <LensView ids={found.ids} /> : <PipelineView ids={found.ids} />)}
    </>
  );
}

export function InsideScreen() {
  if (!info.value?.model) return <p class="empty">{text.server.no_model}</p>;
  if (!HasFeature("trace")) return <p class="empty">{text.server.no_trace}</p>;
  const tab = kTabs.find(([name]) => name === Param("v"))?.[0] ?? "lens";
  return (
    <div class="stack gap">
      <Tabs
        name={text.inside.title}
        value={tab}
        options={kTabs}
        onPick={(value) => SetParams({ v: value === "lens" ? null : value, q: null, l: null })}
      />
      <div class="stack" role="tabpanel" aria-label={text.inside.tabs[tab]}>
        {tab === "embeddings" ? (
          <EmbeddingsView />
        ) : tab === "positions" ? (
          <PositionsView />
        ) : (
          <OfText key={tab} tab={tab} />
        )}
      </div>
    </div>
  );
}
