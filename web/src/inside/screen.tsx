import { Tabs } from "../parts/controls";
import { Inspected } from "../parts/inspected";
import { Choice, SetParams } from "../state/route";
import { info } from "../state/server";
import { EmbeddingsView } from "./embeddings";
import { LensView } from "./lens";
import { PipelineView } from "./pipeline";
import { PositionsView } from "./positions";

const kTabs = [
  ["lens", "Logit lens"],
  ["pipeline", "Pipeline"],
  ["embeddings", "Embeddings"],
  ["positions", "Positions"],
] as const;

export function InsideScreen() {
  const none = info.value?.model?.block.position_channels === 0;
  const tabs = kTabs.filter(([value]) => value !== "positions" || !none);
  const tab = Choice("v", tabs);
  return (
    <Tabs
      name="What to look at"
      value={tab}
      options={tabs}
      onPick={(v) => SetParams({ v: v === "lens" ? null : v, q: null, l: null })}
    >
      {tab === "embeddings" ? (
        <EmbeddingsView />
      ) : tab === "positions" ? (
        <PositionsView />
      ) : (
        <Inspected key={tab}>
          {(ids) => (tab === "lens" ? <LensView ids={ids} /> : <PipelineView ids={ids} />)}
        </Inspected>
      )}
    </Tabs>
  );
}
