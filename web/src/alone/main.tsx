import { render } from "preact";
import { Page } from "./page";
import "./page.css";

render(<Page />, document.body);
