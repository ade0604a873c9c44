import { render } from "preact";
import { Shell } from "./shell";
import { LoadInfo } from "./state/server";
import "./app.css";

void LoadInfo();
render(<Shell />, document.body);
