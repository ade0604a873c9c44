import { Segments } from "../parts/controls";
import { ColourLegend, type ColourMode } from "../parts/prose";
import { Param, SetParams } from "../state/route";
import { text } from "../text";

const kModes = Object.entries(text.play.colours) as [ColourMode, string][];

// Returns what tokens are coloured by, as the address has it.
export function ColourChoice(): ColourMode {
  return Param("c", "probability") as ColourMode;
}

export function ColourBy() {
  const { colour, legend } = text.play;
  const mode = ColourChoice();
  return (
    <>
      <span class="soft small">{colour}</span>
      <Segments
        name={colour}
        value={mode}
        options={kModes}
        onPick={(value) => SetParams({ c: value })}
      />
      <ColourLegend
        mode={mode}
        words={{
          ...(mode === "entropy" ? legend.entropy : legend.probability),
          rank: legend.rank,
        }}
      />
    </>
  );
}
