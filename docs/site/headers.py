"""Headers as doxygen wants them: ordinary comments become its own."""
import re


def shown(comment):
    """The same text, in which nothing is a command of doxygen's."""
    return re.sub(r"[\\@]", r"\\\g<0>", comment)


# A section of folio.h: its title, and the comment that a blank line follows, which is about all of it.
SECTION = re.compile(r"/\* -+ (.+?) -+ \*/\n\n(/\*(?:[^*]|\*[^/])*\*/(?=\n\n))?")


def group_of(title):
    return "c_" + re.sub(r"\W+", "_", title.lower())


def text_of(comment):
    """What a comment of C says, without its stars."""
    return re.sub(r"(?m)^ \* ?", "", comment.removeprefix("/* ").removesuffix("*/"))


def c_header(text):
    """folio.h: each of its sections is a group, which c.md shows one by one."""
    end = ""

    def section(match):
        nonlocal end
        begin = f"{end}/** @defgroup {group_of(match[1])} {match[1]} */\n/** @{{ */\n"
        end = "/** @} */\n"
        return begin

    text = SECTION.sub(section, text)
    text = re.sub(r"(?m)^( *)/\* ", r"\1/** ", text)
    text = re.sub(r"(?m)([;,)0-9] +)/\* ", r"\1/**< ", text)
    text = re.sub(r"typedef (struct (\w+) \{[^}]*\}) \2;", r"\1;", text)
    return re.sub(r"\n#ifdef __cplusplus\n}", r"\n/** @} */\g<0>", text)


def cpp_header(text):
    """Any other: without its namespace, which all have, and without first values that Sphinx cannot read."""
    text = re.sub(r"(?m)^(namespace folio \{|\}  // namespace folio)$", "", text)
    text = re.sub(r"(constexpr auto \w+) =[^;]*;", r"\1;", text)
    text = re.sub(r" = \{\.[^;]*;", ";", text)
    lines = []
    behind = False  # the line before has code, and behind it a comment that may go on
    for line in text.splitlines():
        alone = re.match(r"( *)// ?(.*)", line)
        code = re.match(r"(.*[;,)>\w]) +// (.*)", line)
        behind = bool(code or alone and behind and len(alone[1]) > 8)
        if alone:
            line = f"{alone[1]}///{'<' if behind else ''} {shown(alone[2])}"
        elif code:
            line = f"{code[1]}  ///< {shown(code[2])}"
        lines.append(line)
    return "\n".join(lines) + "\n"
