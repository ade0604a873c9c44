"""Puts the licences of the libraries inside a repaired wheel into it, as the Debian packages have them that they are of.

    python scripts/wheel_licences.py WHEEL       with auditwheel's environment; nothing where there is no dpkg
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path

from auditwheel.wheeltools import InWheelCtx


def package_with(library: str) -> str:
    """The package of an installed library, by the name that it is linked by."""
    listed = subprocess.run(["ldconfig", "-p"], capture_output=True, text=True, check=True).stdout
    paths = re.findall(rf"^\t{re.escape(library)} \(.*=> (.*)$", listed, re.MULTILINE)
    path = str(Path(paths[0]).resolve()).removeprefix("/usr")
    found = subprocess.run(["dpkg", "-S", f"*{path}"], capture_output=True, text=True, check=True).stdout
    return found.split(":")[0]


def main() -> None:
    if shutil.which("dpkg") is None:
        return
    wheel = Path(sys.argv[1]).resolve()
    with InWheelCtx(wheel, wheel):
        texts = next(Path().glob("*.dist-info")) / "licenses"
        texts.mkdir(exist_ok=True)
        for library in sorted(Path("folio.libs").iterdir()):
            name = re.sub(r"-[0-9a-f]{8}(?=\.so)", "", library.name)  # auditwheel's part of it
            soname = re.match(r".*\.so\.\d+", name)
            package = package_with(soname[0] if soname else name)
            text = Path("/usr/share/doc", package, "copyright").read_text(encoding="utf-8")
            (texts / f"{name}.txt").write_text(text, encoding="utf-8")
            # Debian's texts name the longer licences by where they lie.
            for longer in sorted(set(re.findall(r"common-licenses/([A-Za-z0-9.-]*[A-Za-z0-9])", text))):
                lies = Path("/usr/share/common-licenses", longer)
                if lies.exists():
                    shutil.copyfile(lies, texts / longer)


main()
