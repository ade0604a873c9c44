import type { JSX } from "preact";
import { Tabs } from "../parts/controls";
import { Param, SetParams } from "../state/route";
import { HasFeature, info } from "../state/server";
import { text } from "../text";
import { ChatTab } from "./chat_tab";
import { ScoreTab } from "./score_tab";
import { TokensTab } from "./tokens_tab";
import { WriteTab } from "./write_tab";
import { failure, typed } from "./writing";

type Tab = keyof typeof text.play.tabs;
const kTabs = Object.entries(text.play.tabs) as [Tab, string][];
const kBodies: Record<Tab, () => JSX.Element> = {
  chat: ChatTab,
  write: WriteTab,
  score: ScoreTab,
  tokens: TokensTab,
};

export function PlaygroundScreen() {
  if (!info.value?.model) return <p class="empty">{text.server.no_model}</p>;
  const tabs = kTabs.filter(([name]) => name !== "chat" || HasFeature("chat"));
  const first = tabs[0]?.[0] ?? "write";
  const tab = tabs.find(([name]) => name === Param("tab"))?.[0] ?? first;
  const Body = kBodies[tab];
  return (
    <div class="stack gap">
      <Tabs
        name={text.play.views}
        value={tab}
        options={tabs}
        onPick={(value) => {
          typed.value = null;
          failure.value = "";
          SetParams({ tab: value === first ? null : value });
        }}
      />
      <div role="tabpanel" aria-label={text.play.tabs[tab]}>
        <Body />
      </div>
    </div>
  );
}
