"""Writes DIR/goldens.json: what transformers and jinja2 make of chat templates.

    python3 scripts/chat_templates.py [DIR]

DIR holds templates, name.jinja; without one it is tests/fixtures/chat-templates, and the templates of
src/folio/text/chat_template.cc and pieces of the language are rendered too. Wants transformers and jinja2.
"""

import datetime
import json
import pathlib
import re
import sys

from transformers.utils.chat_template_utils import (
    _compile_jinja_template,
    _render_with_assistant_indices,
)

ROOT = pathlib.Path(__file__).resolve().parent.parent
OURS = ROOT / "tests/fixtures/chat-templates"
NOW = datetime.datetime(2024, 7, 6, 15, 4, 5)

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather\nof a “city” & <b>its</b> sky",
        "parameters": {
            "type": "object",
            "properties": {
                "unit": {"type": "string", "enum": ["C", "F"], "description": "of degrees"},
                "city": {"type": "string"},
                "days": {"type": "array", "items": {"type": "integer"}},
            },
            "required": ["city"],
        },
    },
}
CALL = {
    "id": "abcd12345",
    "type": "function",
    "function": {"name": "get_weather", "arguments": {"city": "Zürich", "days": [1, 2], "x": 1.0}},
}


def says(role, content, **more):
    return {"role": role, "content": content, **more}


CONVERSATIONS = {
    "user": {"messages": [says("user", "  Hi <|im_end|>\n")], "add_generation_prompt": True},
    "system": {
        "messages": [says("system", "Be 'brief'.\n"), says("user", "Où?")],
        "add_generation_prompt": True,
    },
    "turns": {
        "messages": [
            says("user", "1+1?"),
            says("assistant", "<think>\nEasy.\n</think>\n\n2"),
            says("user", "And 2+2?\n\n"),
            says("assistant", "<think>\nHm.\n</think>\n\n 4"),
        ],
        "add_generation_prompt": False,
    },
    "tools": {
        "messages": [
            says("user", "Rain?"),
            says("assistant", "", tool_calls=[CALL]),
            says("tool", '{"rain": true}', tool_call_id="abcd12345", name="get_weather"),
            says("assistant", "Yes."),
            says("user", "Thanks"),
        ],
        "tools": [WEATHER],
        "add_generation_prompt": True,
    },
    "empty": {
        "messages": [says("system", ""), says("user", ""), says("assistant", "")],
        "add_generation_prompt": False,
    },
    "parts": {
        "messages": [says("user", [{"type": "text", "text": " a "}, {"type": "image"}])],
        "add_generation_prompt": True,
    },
}

# Pieces of the language; `messages` are those of "turns".
PIECES = r"""
a  {{- 'b' -}}  c|{{ 'd' }}  e|{{+ 'f' }}
  {% if true %}x{% endif %}  y
  {%+ if true %}x{%+ endif %}  y
{# gone #}  z {#- gone -#} q
a  {#+ kept #} b
{{ "a\n\t\\\x41\u00e9\101\q\"" 'b' }}
{{ [1, 2.0, 'x', "it's", 'a"b', none, true, (1,), (), {'a': 1, 2: [3]}] }}
{{ 1e3 }} {{ 1.5e-7 }} {{ 1e16 }} {{ 123456789012345.0 }} {{ 0.1 + 0.2 }} {{ -0.0 }} {{ 1_000 }}
{{ 7 / 2 }} {{ 7 // 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 7 % -3 }} {{ 7.5 // 2 }} {{ -7.5 % 2 }} {{ 2 * 3 - -1 }}
{{ 1 ~ 2 * 3 ~ 'x' ~ (4 - 1) }} {{ 'ab' * 3 }} {{ 2 * [1] }} {{ [1] + [2] }} {{ (1,) + (2,) }} {{ true + 1 }}
{{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ 1 == 1.0 == true }} {{ 'a' < 'b' }} {{ [1, 2] < [1, 3] }} {{ 'a' == 1 }} {{ none == false }}
{{ 'a' in 'abc' }} {{ 1 not in [2] }} {{ 'k' in {'k': 1} }} {{ not 1 in [1] }} {{ 'x' in nothing }} {{ not not 1 }}
{{ 1 and 0 or 'x' }} {{ '' or none }} {{ 1 or nothing.x }} {{ 0 and nothing.x }}
{{ 'yes' if 1 else 'no' }} {{ 'yes' if 0 }}| {{ 'a' if 0 else 'b' if 0 else 'c' }} {{ ('a' if 1 else 'b') ~ 'c' }}
{{ nothing }}|{{ nothing is defined }}|{{ messages[0].nothing is undefined }}|{{ messages[9] is defined }}
{{ nothing == nothing }} {{ nothing | length }} {{ nothing | default('d') }} {{ '' | default('e', true) }} {{ none | d('f') }} {{ 0 | default('g', boolean=true) }}
{{ 1 is number }}{{ true is number }}{{ true is integer }}{{ 1.0 is float }}{{ 'a' is string }}{{ {} is mapping }}{{ [] is mapping }}
{{ 'a' is iterable }}{{ 1 is iterable }}{{ {} is sequence }}{{ 'a' is sequence }}{{ 1 is sequence }}{{ none is none }}{{ 0 is false }}{{ false is false }}{{ true is true }}{{ 1 is boolean }}
{{ 1 is equalto 1 }} {{ 1 is eq(2) }} {{ 'a' is not string }} {{ 1 is in [1] }} {{ 1 is ne 2 }} {{ not 'a' is string }} {{ 1 + 1 is number }}
{{ 'hello'[1] }} {{ 'hello'[-1] }} {{ 'hello'[1:3] }} {{ 'hello'[::-1] }} {{ 'hello'[-3:] }} {{ 'hello'[:-1] }} {{ 'hello'[4:0:-2] }} {{ 'hello'[9:] }}|
{{ [1, 2, 3, 4][::2] }} {{ [1, 2, 3][5:1:-1] }} {{ (1, 2, 3)[1:] }} {{ [1, 2][-5:5] }} {{ [1, 2][none:1] }}
{{ {'a': {'b': [5]}}.a.b[0] }} {{ {'a': 1}['a'] }} {{ {'a': 1}['b'] }}| {{ {'a': 1}.b is defined }} {{ {'items': 5}['items'] }} {{ {'x': 1}.items is defined }} {{ [[1, 2]].0.1 is defined }}
{{ {'a': 1, 'b': none}.get('b') }} {{ {'a': 1}.get('c') }} {{ {'a': 1}.get('c', 'd') }} {{ {'a': 1}.keys() | list }} {{ {'a': 1}.values() | list }} {{ {'a': 1}.items() | list }} {{ {1: 'a', true: 'b'} }}
{% for k, v in {'a': 1, 'b': 2}.items() %}{{ k }}={{ v }}{{ ', ' if not loop.last }}{% endfor %}
{% for x in [3, 1, 2] %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.previtem }}{{ loop.nextitem }};{% endfor %}
{% for x in range(10) if x % 3 == 0 %}{{ x }}/{{ loop.length }} {% else %}none{% endfor %}
{% for x in [] %}a{% else %}b{% endfor %} {% for c in 'añ' %}<{{ c }}>{% endfor %} {% for k in {'a': 1} %}{{ k }}{% endfor %} {% for x in nothing %}a{% endfor %}
{% for x in range(2, 9, 3) %}{% if x == 5 %}{% continue %}{% endif %}{{ x }}{% endfor %} {% for x in range(5, 0, -2) %}{% if x < 2 %}{% break %}{% endif %}{{ x }}{% endfor %}
{% for a in [1, 2] %}{% for b in 'xy' %}{{ loop.index }}{{ a }}{{ b }} {% endfor %}{{ loop.index }}{% endfor %}
{% for a, b in [[1, 2], (3, 4)] %}{{ a + b }} {% endfor %}{% for x in 1, 2 %}{{ x }}{% endfor %}
{% set x = 1 %}{% for i in [1, 2] %}{{ x }}{% set x = x + i %}{{ x }} {% endfor %}{{ x }}
{% if 0 %}{% elif '' %}b{% elif [0] %}c{% else %}d{% endif %}{% if true %}{% set y = 5 %}{% endif %}{{ y }}
{% set ns = namespace(n=0, s='') %}{% for i in [1, 2, 3] %}{% set ns.n = ns.n + i %}{% set ns.s = ns.s ~ i %}{% endfor %}{{ ns.n }} {{ ns.s }} {{ ns.none is defined }}
{% set x %}a{{ 1 }}b{% set y = 2 %}{% endset %}{{ x | length }}{{ y is defined }} {% set a = 1, 2 %}{{ a }}
{% macro m(a, b=2, c=a) %}[{{ a }},{{ b }},{{ c }}]{% endmacro %}{{ m(1) }}{{ m(1, c=3) }}{{ m() }}{{ m(b='x', a=[]) | upper }}
{% macro f(n) %}{{ n }}{% if n > 0 %}-{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(3) }} {% set late = 'z' %}{% macro g() %}{{ late }}{{ gone is defined }}{% endmacro %}{{ g() }}
{{ '  a b ' | trim }}|{{ 'xxaxx' | trim('x') }}|{{ ' a '.strip() }}|{{ 'xyaxy'.strip('yx') }}|{{ ' a '.lstrip() }}|{{ 'a\n\n'.rstrip('\n') }}|{{ 5 | trim }}|
{{ 'a,b,,c'.split(',') }} {{ 'a,b,c'.split(',', 1) }} {{ ' a  b\nc '.split() }} {{ ' a  b c '.split(none, 1) }} {{ ''.split(',') }} {{ ''.split() }} {{ 'abc'.split('bc')[-1] }}|
{{ 'Hello wORLD' | title }} {{ 'hello wORLD' | capitalize }} {{ "they're bill's".title() }} {{ "they're bill's-a (b)" | title }} {{ 'aB'.upper() }} {{ 'aB' | lower }} {{ 'ab cd'.capitalize() }}
{{ 'aXbXc' | replace('X', '--') }} {{ 'aXbXc'.replace('X', '', 1) }} {{ 'abc'.replace('', '-') }} {{ 'abc'.find('c') }} {{ 'abc'.find('d') }} {{ 'abc'.startswith('ab') }} {{ 'abc'.endswith(('x', 'c')) }} {{ '-'.join(['a', 'b']) }} {{ 'a{}b{}'.format(1, 'x') }}
{{ [1, 'a', none] | join(', ') }} {{ ['a', 'b'] | join }} {{ messages | join(',', attribute='role') }} {{ 'abc' | join('-') }} {{ [3, 1] | first }} {{ [3, 1] | last }} {{ [] | first }}| {{ 'abc' | last }}
{{ messages | map(attribute='role') | list }} {{ ['a', 'b'] | map('upper') | list }} {{ messages | selectattr('role', 'equalto', 'user') | list | length }} {{ messages | rejectattr('role', '==', 'user') | map(attribute='role') | join }} {{ [0, 1, ''] | select | list }} {{ [1, 2] | reject('equalto', 2) | list }} {{ messages | selectattr('role') | list | length }}
{{ [3, 1, 2] | sort }} {{ ['b', 'A', 'c'] | sort }} {{ ['b', 'A', 'c'] | sort(case_sensitive=true, reverse=true) }} {{ [{'n': 2}, {'n': 1}] | sort(attribute='n') }} {{ {'b': 1, 'A': 2} | dictsort }} {{ {'b': 1, 'A': 2} | dictsort(by='value', reverse=true) }} {{ [1, 2, 1, 'a', 'A'] | unique | list }} {{ [3, 1] | min }} {{ 'hello' | reverse }} {{ [1, 2] | reverse | list }} {{ {'a': 1} | items | list }}
{{ '42' | int }} {{ 'x' | int }} {{ 'x' | int(7) }} {{ 3.9 | int }} {{ '3.9' | int }} {{ '1.5' | float }} {{ 'x' | float(2.5) }} {{ 1 | string ~ 'a' }} {{ 5 | string | length }} {{ 'a' | list }} {{ '<' | safe }} {{ 12 | float }} {{ true | string }}
{{ 'a\nb\n\nc\n' | indent }}| {{ 'a\nb' | indent(2, true) }}| {{ 'a\n\nb' | indent(2, blank=true) }}| {{ 'a\nb' | indent('> ') }}
{{ {'a': [1, 2.0, none, true, 'é"\\\n\x01/'], 'b': {}, 'c': []} | tojson }} {{ 'é😀\x7f' | tojson(ensure_ascii=true) }} {{ {1: 2, none: 3, true: 4.5} | tojson }} {{ 'a<b>&\'' | tojson }}
{{ {'b': [1, {'c': []}], 'a': {}} | tojson(indent=2) }} {{ {'b': 1, 'a': [1, 2]} | tojson(separators=(',', ':'), sort_keys=true) }} {{ [] | tojson(indent=4) }} {{ 1e20 | tojson }}
{{ strftime_now('%d %b %Y, %A %-d %B %H:%M:%S %y %m %j %p %I %%') }} {{ range(3) | list }} {{ range(3) | length }}
{{ messages[-1]['content'].split('</think>')[-1].lstrip('\n') }} {{ (messages | last).role }} {{ messages[0:1] | length }} {{ messages == messages[:] }}
{{ -3 | string }} {{ -(1 + 2) }} {{ +1 }} {{ - 1 + 2 }} {{ 'ab' 'cd' }} {{ not true == false }} {{ (1, 'a')[1] }} {{ [1, 2,] }} {{ {'a': 1,} }}
{% if messages[0].role == 'user' and messages[1]['role'] != 'user' and not nothing -%}  yes  {%- endif %}
{{ bos_token }}{{ eos_token }}{{ tools is none }}{{ documents is defined }}{{ add_generation_prompt }}
  {%- if true %}

  a
  {% endif %}
  b
{% generation %}x{% endgeneration %} {% generation -%} y {%- endgeneration %}
""".strip("\n").split("\n")

# A piece of several lines.
PIECES[-6:-1] = ["\n".join(PIECES[-6:-1])]

# What jinja2 refuses, or what a template says no to.
REFUSED = r"""
{{ nothing.x }}
{{ nothing['x'] }}
{{ nothing + 'a' }}
{{ 'a' + 1 }}
{{ 1 < 'a' }}
{{ none | length }}
{{ 1 / 0 }}
{{ 1 in 'a' }}
{{ [1].append(2) }}
{{ {'a': 1}.update({'b': 2}) }}
{{ 'a'.foo() }}
{{ nothing() }}
{{ 'a' | foo }}
{{ 'a' is foo }}
{% foo %}
{% if true %}
{{ 'a }}
{{ (1 }}
{{ 1 2 }}
{# open
{% endif %}
{% break %}
{% for x in 5 %}{% endfor %}
{% for a, b in [[1]] %}{% endfor %}
{{ raise_exception('no') }}
{{ {} | tojson(foo=1) }}
{{ nothing | tojson }}
{{ [1, 2] | sort(attribute='a.b') }}
{% set ns.x = 1 %}
{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}
{{ range(1000000) }}
{{ ''.split('') }}
""".strip("\n").split("\n")


def rendered(source, chat):
    compiled = _compile_jinja_template(source)
    text, spans = _render_with_assistant_indices(
        compiled,
        chat["messages"],
        chat.get("tools"),
        None,
        chat["add_generation_prompt"],
        bos_token="<s>",
        eos_token="</s>",
        strftime_now=NOW.strftime,
    )
    return text, [list(span) for span in spans]


def golden(source, chat):
    """The text, and the spans of {% generation %} if there are some; null for a template that fails."""
    try:
        text, spans = rendered(source, chat)
    except Exception:  # of any kind: what the template does is Python's
        return None
    return [text, spans] if spans else text


def builtin_templates():
    source = (ROOT / "src/folio/text/chat_template.cc").read_text()
    table = source[source.index("kBuiltins") : source.index("}};")]
    return dict(re.findall(r'\{"(\w+)", R"\((.*?)\)"\}', table, re.S))


def main():
    directory = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else OURS
    templates = {path.stem: path.read_text() for path in sorted(directory.glob("*.jinja"))}
    goldens = {"conversations": CONVERSATIONS}
    if directory == OURS:
        templates |= builtin_templates()
        goldens["pieces"] = [[p, rendered(p, CONVERSATIONS["turns"])[0]] for p in PIECES]
        for piece in REFUSED:
            assert golden(piece, CONVERSATIONS["turns"]) is None, piece
        goldens["refused"] = REFUSED
    goldens["renderings"] = {
        name: {key: golden(source, chat) for key, chat in CONVERSATIONS.items()}
        for name, source in templates.items()
    }
    lines = json.dumps(goldens, ensure_ascii=False, indent=0, separators=(",", ":"))
    (directory / "goldens.json").write_text(lines + "\n")


if __name__ == "__main__":
    main()
