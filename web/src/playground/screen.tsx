import { Tabs } from "../parts/controls";
import { Choice, SetParams } from "../state/route";
import { HasFeature } from "../state/server";
import { ChatTab } from "./chat";
import { ScoreTab } from "./score";
import { TokensTab } from "./tokens";
import { WriteTab } from "./write";
import { failure, Type } from "./writing";

const kTabs = [
  ["chat", "Chat"],
  ["write", "Write"],
  ["score", "Score"],
  ["tokens", "Tokens"],
] as const;
const kBodies = { chat: ChatTab, write: WriteTab, score: ScoreTab, tokens: TokensTab };

export function PlaygroundScreen() {
  const tabs = HasFeature("chat") ? kTabs : kTabs.slice(1);
  const tab = Choice("tab", tabs);
  const Body = kBodies[tab];
  return (
    <Tabs
      name="What to do with a text"
      value={tab}
      options={tabs}
      onPick={(value) => {
        Type(null);
        failure.value = "";
        SetParams({ tab: value === tabs[0]?.[0] ? null : value });
      }}
    >
      <Body />
    </Tabs>
  );
}
