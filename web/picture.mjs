// Takes the picture of the page that README.md shows, of the model in a directory:
//   node web/picture.mjs runs/demo docs/demo/page.png
import { Browser, Open, Serve } from "./test/kit.mjs";

const [model, out] = process.argv.slice(2);
const service = await Serve("--model", model);
const browser = await Browser();
try {
  const view = new URLSearchParams({ t: "The fox saw a fox.", l: "1", h: "1", q: "16", k: "8" });
  const { page, Close } = await Open(browser, `${service.url}/#/attn?${view}`, {
    colorScheme: "light",
    viewport: { width: 1280, height: 832 },
  });
  await page.waitForSelector(".query-list output");
  await page.waitForLoadState("networkidle");
  await page.screenshot({ path: out });
  await Close();
} finally {
  await browser.close();
  await service.Stop();
}
