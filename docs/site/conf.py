"""The documents as a site: Sphinx's configuration, and the pages that are made of the program and of its headers.

scripts/site.sh calls it with FOLIO_PROGRAM and FOLIO_MAN (the pages of `folio help --man`), in a directory of sources that
has the documents where the repository has them, so that their links hold."""
import os
import re
import subprocess
import sys
from pathlib import Path

sources = Path(__file__).parent  # of the site, build/site-sources
sys.path.insert(0, str(sources))
import headers  # noqa: E402
project = "folio"
author = "the folio authors"
release = re.search(r"project\(folio VERSION ([\d.]+)", (sources / "CMakeLists.txt").read_text())[1]
extensions = ["myst_parser", "breathe"]
include_patterns = ["index.md", "readme.md", "docs/*.md", "web/API.md", "examples/slurm/README.md", "CHANGELOG.md", "SECURITY.md", "c.md",
                    "commands/*", "cpp/*"]
highlight_language = "text"
smartquotes = False  # an option begins with two hyphens, not with a dash
myst_heading_anchors = 4
suppress_warnings = ["misc.highlighting_failure"]
breathe_projects = {"folio": str(sources / "xml")}
breathe_default_project = "folio"
breathe_default_members = ("members",)
breathe_show_include = False
html_theme = "furo"
html_title = f"folio {release}"
html_show_sphinx = False
html_copy_source = False
html_static_path = ["site.css"]
html_css_files = ["site.css"]
html_favicon = "icon.svg"  # the page's

# Titles that say by themselves what a page is about, of documents whose own do not.
TITLES = {
    "readme": "Overview and tour",
    "docs/training": "Training models",
    "docs/writing": "Writing text",
    "docs/models": "Models of other programs",
    "docs/tokenizers": "Tokenizers",
    "docs/looking": "Looking into models",
    "docs/attention": "Attention step by step",
    "docs/machines": "Training on several machines",
    "docs/serve": "Serving models",
    "docs/page": "The page without a server",
    "docs/speed": "Speed of folio",
    "docs/reliability": "Reliability of runs",
    "docs/library": "Using folio in C++ programs",
    "docs/python": "Using folio from Python",
    "docs/architecture": "Architecture of the code",
    "docs/decisions": "Decisions of the design",
    "c": "C interface: folio.h",
    "cpp/index": "C++ interface: headers",
    "web/API": "The page's requests to the service",
    "examples/slurm/README": "Training under Slurm",
    "SECURITY": "Security of files and requests",
    "CHANGELOG": "Changelog of folio",
    "commands/index": "Commands of folio",  # of the page that the program writes
}

TOCTREES = """
```{toctree}
:hidden:
:caption: Guides

readme
docs/cookbook
docs/training
docs/writing
docs/models
docs/tokenizers
docs/looking
docs/attention
docs/machines
docs/serve
docs/page
docs/speed
docs/reliability
SECURITY
```

```{toctree}
:hidden:
:caption: In your program

docs/library
docs/python
c
cpp/index
web/API
```

```{toctree}
:hidden:
:caption: Reference

commands/index
docs/architecture
docs/decisions
CHANGELOG
examples/slurm/README
```
"""


# --- Commands: a page for each, of its page of man

def escaped(text):
    """Text of a page of man as reStructuredText has it."""
    text = text.replace(r"\-", "-").replace(r"\&", "").replace(r"\e", "\\")
    text = re.sub(r"([\\*`|_])", r"\\\1", text)
    return re.sub(r"(?<![^\s(])(--[a-z][a-z0-9-]*)(?![\w=])", r"``\1``", text)  # names of options are not cut


def page_of_man(path):
    """Returns the title and the reStructuredText of a page of man that folio has written."""
    title, section, out, literal, lines = "", "", [], False, path.read_text().splitlines()
    at = 0
    while at < len(lines):
        line = lines[at]
        word, _, rest = line.partition(" ")
        at += 1
        if word == ".TH":
            title = rest.split(" ")[0].replace("-", " ")
            out += [f".. program:: {title}", ""]
        elif word == ".SH":
            if rest == "SEE ALSO":
                break
            section = rest
            if section not in ("NAME", "SYNOPSIS", "DESCRIPTION", "COMMANDS"):
                out += ["", section.capitalize(), "-" * len(section), ""]
        elif word == ".SS":
            out += ["", f".. rubric:: {escaped(rest)}", ""]
        elif word == ".TP":
            name, text = lines[at].removeprefix(".B "), lines[at + 1]
            at += 2
            if name.startswith(r"folio "):
                page = name.replace(r"\-", "-").replace(" ", "-")
                out += [f":doc:`{name} <{page}>`", f"   {escaped(text)}", ""]
            else:
                out += [f".. option:: {name.replace(chr(92) + '-', '-')}", "", f"   {escaped(text)}", ""]
        elif word == ".B":
            out += ["", ".. code-block:: text", "", "   " + rest.replace(r"\-", "-"), ""]
        elif word == ".PP":
            out.append("")
        elif word in (".nf", ".fi"):
            literal = word == ".nf"
            out += ["", ".. code-block:: sh", ""] if literal else [""]
        elif literal:
            out.append("   " + line.replace(r"\-", "-").replace(r"\&", "").replace(r"\e", "\\"))
        elif section == "NAME":
            summary = line.split(r" \- ", 1)[1]
            out.append(escaped(summary[0].upper() + summary[1:]) + ".")
        else:
            out.append(escaped(line))
    return title, "\n".join([title, "=" * len(title), "", *out, ""])


def write_commands():
    (sources / "commands").mkdir()
    names = []
    for path in sorted(Path(os.environ["FOLIO_MAN"]).glob("*.1")):
        title, text = page_of_man(path)
        if path.stem == "folio":
            index = text.replace("folio\n=====", f"{TITLES['commands/index']}\n{'=' * 20}", 1)
        else:
            names.append(path.stem)
            (sources / f"commands/{path.stem}.rst").write_text(text)
    index += "\n.. toctree::\n   :hidden:\n\n" + "".join(f"   {name}\n" for name in names)
    (sources / "commands/index.rst").write_text(index)


# --- References of C and C++: the sections of folio.h, the public headers

def write_c():
    header = (sources / "src/folio/c/folio.h").read_text()
    (sources / "headers/folio.h").write_text(headers.c_header(header))
    with open(sources / "c.md", "a") as page:
        page.write(headers.text_of(re.search(r"Rules that hold.*?(?=\*/)", header, re.DOTALL)[0]))
        for title, about in headers.SECTION.findall(header):
            page.write(f"\n## {title}\n\n{headers.text_of(about)}\n")
            page.write(f"```{{doxygengroup}} {headers.group_of(title)}\n:content-only:\n```\n")


def write_cpp():
    (sources / "cpp").mkdir()
    rooms = {}
    listed = re.search(r"set\(public_headers([^)]*)\)", (sources / "install/CMakeLists.txt").read_text())[1].split()
    for header in listed:
        rooms.setdefault(header.split("/")[0], []).append(header)
    about = dict(re.findall(r"(?m)^  (\w+)/ +(\S.*(?:\n {13}\S.*)*)", (sources / "docs/architecture.md").read_text()))
    index = (sources / "cpp-index.md").read_text() + "\n| room | holds | headers |\n|---|---|---|\n"
    for room, of_room in rooms.items():
        text = re.sub(r"\s+", " ", about[room])
        index += f"| [{room}]({room}.md) | {text} | {', '.join('`' + h.split('/')[1] + '`' for h in of_room)} |\n"
        page = f"# C++ headers: {room}\n\n{text[0].upper() + text[1:]}.\n"
        for header in of_room:
            name = header.replace("/", "-")  # Breathe looks for files by their last name alone
            (sources / "headers" / name).write_text(headers.cpp_header((sources / "src/folio" / header).read_text()))
            page += f"\n## folio/{header}\n\n```{{doxygenfile}} {name}\n:sections: briefdescription detaileddescription innerclass define enum "
            page += "typedef func var public-type public-attrib public-func public-static-attrib public-static-func\n```\n"
        (sources / f"cpp/{room}.md").write_text(page)
    (sources / "cpp/index.md").write_text(
        index + "\n```{toctree}\n:hidden:\n\n" + "".join(f"{room}\n" for room in rooms) + "```\n")


# --- Documents as the repository has them

def of_what_is_there(text):
    """Without the lines of documents that this tree does not have."""
    named = re.compile(r"(?m)^(docs/\w+)$|\]\((docs/\w+)\.md")
    missing = [name for match in named.finditer(text) if (name := match[1] or match[2])
               and not (sources / f"{name}.md").exists()]
    return "\n".join(line for line in text.split("\n") if not any(name in line for name in missing))


def as_the_site_has_it(_, docname, text):
    """The README is a page beside the first, and a directory, to which there are links in the repository, is none."""
    if docname == "index":
        text[0] = of_what_is_there(text[0] + TOCTREES)
    if docname in TITLES:
        text[0] = re.sub(r"\A# .*", f"# {TITLES[docname]}", text[0])
    text[0] = re.sub(r"\]\((\.\./)*README\.md", r"](\1readme.md", text[0])

    def without_directory(match):
        is_one = (sources / Path(docname).parent / match[2]).is_dir()
        return match[1] if is_one else match[0]

    text[0] = re.sub(r"(?<!!)\[([^]\n]*)\]\(([\w./-]+)\)", without_directory, text[0])


write_commands()
(sources / "headers").mkdir()
write_c()
write_cpp()
subprocess.run(["doxygen", "Doxyfile"], cwd=sources, check=True)


def without_numbers(_, page, template, context, doctree):
    """Enumerations of C without a name have none in the list of what is on a page either."""
    if context.get("toc"):
        context["toc"] = re.sub(r"&#64;\d+", "enum", context["toc"])


def with_whole_words(_, page, template, context, doctree):
    """Browsers break lines behind hyphens: short words of code, as flags are, stay whole."""
    if context.get("body"):
        context["body"] = re.sub(r'<span class="pre">((?:[^<&]|&#?\w+;){1,26})</span>', r'<span class="pre whole">\1</span>',
                                 context["body"])


def setup(app):
    app.connect("html-page-context", without_numbers, priority=100)
    app.connect("html-page-context", with_whole_words, priority=100)
    app.connect("source-read", as_the_site_has_it)
