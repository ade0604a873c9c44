import { Tabs } from "../parts/controls";
import { Param, SetParams } from "../state/route";
import { info } from "../state/server";
import { text } from "../text";
import { ScoreTab } from "./score_tab";
import { TokensTab } from "./tokens_tab";
import { WriteTab } from "./write_tab";

type Tab = keyof typeof text.play.tabs;
const kTabs = Object.entries(text.play.tabs) as [Tab, string][];

export function PlaygroundScreen() {
  if (!info.value?.model) return <p class="empty">{text.server.no_model}</p>;
  const tab = kTabs.find(([name]) => name === Param("tab"))?.[0] ?? "write";
  return (
    <div class="stack gap">
      <Tabs
        name={text.play.views}
        value={tab}
        options={kTabs}
        onPick={(value) => SetParams({ tab: value === "write" ? null : value })}
      />
      <div role="tabpanel" aria-label={text.play.tabs[tab]}>
        {tab === "write" ? <WriteTab /> : tab === "score" ? <ScoreTab /> : <TokensTab />}
      </div>
    </div>
  );
}
