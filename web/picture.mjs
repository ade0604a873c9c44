// Takes the picture of the page that README.md shows, of the model in a directory:
//   node web/picture.mjs runs/words docs/demo/page.png
import { Browser, Choose, Close, Exact, Generate, Open, Serve } from "./test/kit.mjs";

const [model, out] = process.argv.slice(2);
const service = await Serve("--model", model);
try {
  const page = await Open(`${service.url}/#/play`, {
    colorScheme: "light",
    viewport: { width: 1280, height: 800 },
  });
  await Choose(page, { seed: "3", max_tokens: 110 });
  await page.fill("#prompt", "Once upon a time, there was a little");
  const answer = page.waitForResponse(/api\/generate/);
  await Generate(page);
  // The page shows the one of the first tokens that the model was least sure of.
  const entropies = (await (await answer).text())
    .split("\n\n")
    .filter((event) => event.startsWith("event: token"))
    .map((event) => JSON.parse(event.split("data: ")[1]).H)
    .slice(0, 60);
  const open = entropies.indexOf(Math.max(...entropies));
  await page.locator(".piece:not(.given)").nth(open).click();
  await page.mouse.move(5, 5);
  await Exact(page);
  await page.screenshot({ path: out });
  await Close();
} finally {
  await (await Browser()).close();
  await service.Stop();
}
